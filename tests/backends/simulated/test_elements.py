"""Elements that an index names have the values of PyTorch on the host."""

import numpy
import pytest
import torch

INDICES = {
    "a list": [0, 3],
    "an empty list": [],
    "booleans": [True, False, True, False],
    "lists as a tuple": [[0, 1], [2, 3]],
    "a list beside a slice": (slice(None), [[0, 1], [2, 3]]),
    "an empty list beside a number": (1, []),
    "ranges": (range(2), range(2)),
    "an array": numpy.array([0, 2]),
    "an array of booleans": numpy.array([True, False, True, False]),
    "a list of many": list(range(4)) * 10,
    "a list with a tensor of the host": (slice(None), [0, torch.tensor(5)]),
    "a flag": (1, True),
    "numbers of an array": [numpy.int64(3), numpy.int64(0)],
    "a size": torch.Size([1, 2]),
}


def filled(device):
    return torch.arange(24.0).reshape(4, 6).to(device)


def read(x, index):
    return x[index]


def put(x, index):
    x[index] = -7.0
    return x


def added(x, index):
    x[index] += 1
    return x


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("use", [read, put, added])
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_the_values_are_those_of_the_host(run, use, index):
    expected, found = use(filled("cpu"), index), []
    run(lambda: found.extend([use(filled("cuda"), index).tolist()]))
    assert found == [expected.tolist()]


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ([[0, 1], [1, 2, 3]], IndexError),
        ("ab", TypeError),
        ([["a"]], TypeError),
        ([[0]] * 3, IndexError),
    ],
)
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_the_errors_are_those_of_pytorch(backends, index, error):
    with pytest.raises(error) as expected:
        read(filled("cpu"), index)
    with backends().world(), pytest.raises(error) as found:
        read(filled("cuda"), index)
    assert str(found.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_a_list_of_tensors_makes_a_tensor_of_their_values(run):
    found = []

    def program():
        one, two = torch.ones(3, device="cuda").sum(), torch.tensor(2.0)
        found.append(torch.tensor([one, two], device="cuda").tolist())
        found.append(torch.as_tensor([[one, 4]]).tolist())
        found.append(one.new_tensor([two, one]).tolist())

    run(program)
    assert found == [[3.0, 2.0], [[3.0, 4.0]], [2.0, 3.0]]


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("transform", [torch.vmap, torch.func.jacrev])
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_the_values_in_a_transform_are_those_of_the_host(run, transform, index):
    def changed(x):
        return put(x * 2, index) + x[index].sum()

    given, found = torch.arange(48.0).reshape(2, 4, 6), []
    if transform is torch.func.jacrev:
        given = given[0]
    expected = transform(changed)(given)
    run(lambda: found.append(transform(changed)(given.to("cuda")).tolist()))
    assert found == [expected.tolist()]


def test_a_number_of_another_library_has_the_error_of_the_device(backends):
    with backends().world(), pytest.raises(TypeError) as found:
        filled("cuda")[0] = numpy.float32(1)
    assert str(found.value) == "can't assign a numpy.float32 to a torch.cuda.FloatTensor"


def test_indices_of_a_flat_tensor_have_no_model_in_a_transform(run):
    def program():
        places = torch.tensor([1, 5], device="cuda")
        return torch.vmap(lambda x: x[torch.unravel_index(places, (4, 6))])(filled("cuda")[None])

    assert run(program).unmeasured == (
        "no model of torch.unravel_index under torch.func; use backend='null' or 'cuda'"
    )
