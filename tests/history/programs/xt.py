"""Two layers of a decoder over 512 tokens, forward and backward."""

import torch


def _train(**kw):
    from x_transformers import Decoder, TransformerWrapper

    net = TransformerWrapper(
        num_tokens=256, max_seq_len=512, attn_layers=Decoder(dim=128, depth=2, heads=4, **kw)
    ).to("cuda")
    out = net(torch.randint(0, 256, (2, 512)).to("cuda"))
    (out[0] if isinstance(out, tuple) else out).sum().backward()


def plain():
    _train()


def rotary():
    _train(rotary_pos_emb=True)


def flash():
    _train(attn_flash=True)


def gqa():
    _train(attn_kv_heads=2)
