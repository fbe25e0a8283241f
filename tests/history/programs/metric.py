"""Losses over 64 embeddings of 64 numbers in 8 classes, forward and backward."""

import pytest
import torch

NAMES = "ContrastiveLoss TripletMarginLoss NTXentLoss MultiSimilarityLoss CircleLoss"
MORE = " LiftedStructureLoss MarginLoss SupConLoss"
CLASSES = "ArcFaceLoss ProxyAnchorLoss"


@pytest.mark.parametrize("name", (NAMES + MORE + " " + CLASSES).split())
def loss(name):
    from pytorch_metric_learning import losses

    kind = getattr(losses, name)
    given = {"num_classes": 8, "embedding_size": 64} if name in CLASSES else {}
    embeddings = torch.randn(64, 64, requires_grad=True)
    labels = torch.arange(64) % 8
    kind(**given)(embeddings, labels).sum().backward()
