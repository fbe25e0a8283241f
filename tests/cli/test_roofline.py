"""``attnmem roofline``: what limits a model's inference on a device."""

import pytest
from suites import KNOWN_DEVICES

from pytest_attnmem.cli import main
from pytest_attnmem.inference.roof import DTYPES
from pytest_attnmem.profiles import PROFILES

MODEL = ("--params", "7e9", "--layers", "32", "--d-model", "4096", "--heads", "32")
DEEPSEEK = (
    *("--params", "671e9", "--layers", "61", "--d-model", "7168", "--heads", "128"),
    *("--head-dim", "128", "--mla", "512+64", "--seq-len", "4096"),
)

PRINTED = """\
memory: weights 13.0 GiB (14,000,000,000 B) and cache 1.0 GiB (1,073,741,824 B) need 14.0 GiB of \
79.2 GiB
fits A100-80GB: at batch 1 up to 135,482 tokens, at 2,048 tokens up to batch 66
tokens/s at most: 145.6 of one sequence by the weights alone; 135.3 of the batch with its cache \
read; 135.2 by operation
decode can use 0.654% of the peak FLOP/s
products with weights: memory-bound up to batch 156, compute-bound from 157
the whole step at 2,048 tokens: memory-bound at any batch, for what is read grows with it

7,000,000,000 parameters in fp16, 32 layers of 4096, 32 heads of 128; batch 1 of 2,048 tokens, \
cached in fp16
A100-80GB: 2,039.0 GB/s, 311.9 TFLOP/s in fp16, ridge point 152.9 FLOP/B

         operation                    GFLOP     moved    FLOP/B  bound by      ms at least
-------  ------------------------  --------  --------  --------  ----------  -------------
decode   QKV projections                3.2   3.0 GiB       1.0  memory              1.580
         attention over the cache       1.1   1.0 GiB       1.0  memory              0.527
         output projection              1.1   1.0 GiB       1.0  memory              0.527
         MLP and the rest               9.7   9.0 GiB       1.0  memory              4.760
         whole step                    15.1  14.0 GiB       1.0  memory              7.394
prefill  QKV projections            6,597.1   5.0 GiB   1,228.8  compute            21.153
         attention over the cache   2,220.5   2.0 GiB   1,034.0  compute             7.120
         output projection          2,199.0   2.0 GiB   1,024.0  compute             7.051
         MLP and the rest          19,875.9  10.0 GiB   1,844.0  compute            63.731
         whole step                30,892.5  19.0 GiB   1,511.2  compute            99.056
"""


@pytest.fixture
def ask(printed_json):
    return lambda *arguments: printed_json("roofline", *arguments, "--json")


def test_the_issues_command(capsys):
    assert main(["roofline", *MODEL, "--dtype", "fp16", "--device", "A100-80GB"]) == 0
    assert capsys.readouterr().out == PRINTED


def test_json_has_the_same_exactly(ask):
    found = ask(*MODEL, "--batch", "8")
    steps = found.pop("steps")
    assert found == {
        "params": 7 * 10**9,
        "dtype": "fp16",
        "compute_dtype": "fp16",
        "kv_dtype": "fp16",
        "batch_size": 8,
        "seq_len": 2048,
        "device": "A100-80GB",
        "memory_bytes": PROFILES["A100-80GB"].memory_bytes,
        "bandwidth_bytes_per_sec": 2.03904e12,
        "compute_flops": 3.1186944e14,
        "computed_in": "fp16",
        "ridge_point": pytest.approx(152.949),
        "model_bytes": 14 * 10**9,
        "kv_cache_bytes": 8 << 30,
        "fits": True,
        "longest_seq_len": 16935,
        "largest_batch_size": 66,
        "max_tokens_per_sec": pytest.approx(145.6457),
        "memory_tokens_per_sec": pytest.approx(722.10568),
        "tokens_per_sec": 8 * 2.03904e12 / 22_610_906_112,
        "compute_bound_batch_size": {"weights": 157, "step": None},
    }
    assert [(step["name"], step["tokens"]) for step in steps] == [("decode", 8), ("prefill", 16384)]
    for step in steps:
        *parts, whole = step["operations"]
        assert whole["name"] == "whole step"
        assert whole["flops"] == sum(one["flops"] for one in parts)
        assert whole["bytes"] == sum(one["bytes"] for one in parts)
        assert whole["intensity"] == whole["flops"] / whole["bytes"]
    assert [one["memory_bound"] for one in steps[0]["operations"]] == [True] * 5
    assert [one["memory_bound"] for one in steps[1]["operations"]] == [False] * 5


@pytest.mark.parametrize(
    ("options", "cache", "weights"),
    [
        ((), 1 << 30, 14 * 10**9),
        (("--kv-heads", "8"), 1 << 28, 14 * 10**9),
        (("--kv-dtype", "int8"), 1 << 29, 14 * 10**9),
        (("--kv-dtype", "int4", "--kv-group", "32"), 9 << 25, 14 * 10**9),
        (("--kv-dtype", "int4", "--kv-group", "32", "--kv-group-bytes", "4"), 5 << 26, 14 * 10**9),
        (("--mla", "512+64"), 2048 * 32 * 576 * 2, 14 * 10**9),
        (("--mla", "512"), 2048 * 32 * 512 * 2, 14 * 10**9),
        (("--dtype", "int4"), 1 << 30, 35 * 10**8),
        (("--dtype", "fp8", "--compute-dtype", "fp8"), 1 << 29, 7 * 10**9),
        (("--dtype", "float32"), 1 << 31, 28 * 10**9),
    ],
)
def test_the_cache_in_its_variants(ask, options, cache, weights):
    found = ask(*MODEL, *options)
    assert (found["kv_cache_bytes"], found["model_bytes"]) == (cache, weights)


@pytest.mark.parametrize(
    ("options", "computed", "ridge"),
    [
        (("--dtype", "int4"), "fp16", 295.1),
        (("--dtype", "fp8"), "fp16", 295.1),
        (("--dtype", "fp8", "--compute-dtype", "fp8"), "fp8", 590.3),
        (("--dtype", "fp32"), "fp32", 20.0),
        (("--dtype", "fp32", "--compute-dtype", "tf32"), "tf32", 147.6),
        (("--dtype", "int4", "--device", "GTX 1080"), "fp32", 27.7),
    ],
)
def test_it_says_what_is_computed_in(ask, options, computed, ridge):
    found = ask(*MODEL, "--device", "H100", *options)
    assert found["computed_in"] == computed
    assert found["ridge_point"] == pytest.approx(ridge, abs=0.05)


def test_a_device_without_a_profile_is_told(ask, capsys):
    told = ("--bandwidth", "2e12", "--compute", "312e12")
    found = ask(*MODEL, *told, "--memory", "80 GiB")
    assert (found["device"], found["ridge_point"], found["fits"]) == ("the device", 156.0, True)
    assert found["max_tokens_per_sec"] == 1000 / 7
    found = ask(*MODEL, *told)
    assert (found["memory_bytes"], found["fits"], found["longest_seq_len"]) == (None, None, None)
    assert main(["roofline", *MODEL, *told]) == 0
    out = capsys.readouterr().out
    assert "the device: 2,000.0 GB/s, 312.0 TFLOP/s in fp16, ridge point 156.0 FLOP/B\n" in out
    assert "need 14.0 GiB\ntokens/s" in out


def test_a_device_with_a_profile_may_differ(ask):
    found = ask(*MODEL, "--device", "L4", "--memory", "14 GiB")
    assert (found["device"], found["fits"]) == ("L4", False)
    assert found["bandwidth_bytes_per_sec"] == 300_048_000_000


@pytest.fixture
def told(capsys):
    """Returns the text that the command prints."""

    def out(*arguments):
        assert main(["roofline", *arguments]) == 0
        return capsys.readouterr().out

    return out


def test_what_does_not_fit_says_so(told):
    out = told(*DEEPSEEK, "--dtype", "fp8", "--device", "H200")
    assert (
        "128 heads of 128 over a latent of 512+64; batch 1 of 4,096 tokens, cached in fp16" in out
    )
    assert ("\ndoes not fit H200: at batch 1 not one token, at 4,096 tokens no batch\n") in out
    assert (
        "the whole step at 4,096 tokens: memory-bound up to batch 100, compute-bound from 101,"
        " which does not fit H200\n"
    ) in out
    attention = next(line for line in out.splitlines() if "attention over the cache" in line)
    assert attention.split()[-4:-1] == ["GiB", "228.8", "compute"]


def test_what_is_computed_slowly_is_never_memory_bound(told):
    out = told(*MODEL, "--kv-heads", "8", "--bandwidth", "1e12", "--compute", "1e9")
    assert "32 heads of 128 over 8; batch 1" in out
    assert "products with weights: compute-bound at any batch\n" in out
    assert "decode can use 100.0% of the peak FLOP/s\n" in out


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_it_is_drawn_beside_what_is_printed(ask, tmp_path, suffix):
    path = tmp_path / f"roof{suffix}"
    assert ask(*MODEL, "--plot", str(path))["model_bytes"] == 14 * 10**9
    assert path.stat().st_size > 10_000


NUMBER = "expected a number from 1e-30 to 1e30, got"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--params", "7B"), "--params: expected a whole number from 1 to 1e30, got '7B'"),
        (("--params", "1e999"), "--params: expected a whole number from 1 to 1e30, got inf"),
        (("--layers", "0"), "--layers: expected a whole number from 1 to 1e30, got 0"),
        (("--batch", "-1"), "--batch: expected a whole number from 1 to 1e30, got -1.0"),
        (("--seq-len", "1.5"), "--seq-len: expected a whole number from 1 to 1e30, got 1.5"),
        (("--kv-group", "0"), "--kv-group: expected a whole number from 1 to 1e30, got 0"),
        (("--kv-group-bytes", "x"), f"--kv-group-bytes: {NUMBER} 'x'"),
        (
            ("--params", "1e9"),
            "--params: expected more than the 2,147,483,648 parameters that the projections of"
            " attention have in 32 layers, got 1,000,000,000",
        ),
        (
            ("--heads", "33"),
            "--heads: expected a divisor of --d-model 4096, got 33; or give --head-dim",
        ),
        (("--kv-heads", "5"), "--kv-heads: expected a divisor of --heads 32, got 5"),
        (
            ("--mla", "512", "--kv-heads", "8"),
            "--kv-heads and --mla: all heads share the latent; give one of the two",
        ),
        (("--mla", "512+"), "--mla: expected such as 512+64, or 512, got '512+'"),
        (("--mla", "+64"), "--mla: expected such as 512+64, or 512, got '+64'"),
        (("--mla", "512+0"), "--mla: expected a whole number from 1 to 1e30, got 0"),
        (("--dtype", "fp17"), f"--dtype: expected one of {', '.join(DTYPES)}, got 'fp17'"),
        (("--kv-dtype", ""), f"--kv-dtype: expected one of {', '.join(DTYPES)}, got ''"),
        (("--device", "H10"), f"unknown device 'H10'; did you mean H100? {KNOWN_DEVICES}"),
        (
            ("--bandwidth", "2e12"),
            "a device needs --bandwidth and --compute, and --memory if it matters; give both, or"
            " the --device whose rates they replace",
        ),
        (("--device", "L4", "--compute", "0"), f"--compute: {NUMBER} 0"),
        (
            ("--device", "L4", "--memory", "80 GB"),
            "cannot parse size '80 GB': write '80 GiB' (1 GiB = 1024**3 bytes); GB is used for both"
            " 10**9 and 2**30",
        ),
        (("--plot", "a.gif"), "cannot draw a.gif: its name must end in .png or .svg"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(refusal, options, message):
    assert refusal("roofline", *MODEL, *options) == message
