"""PYTORCH_ALLOC_CONF: the settings read from it, and the one-line errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.allocator import (
    AllocatorSettings,
    AllocatorSettingsError,
    parse_settings,
    settings_from,
)

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        (" \n", {}),
        ("max_split_size_mb:128", {"max_split_size": 128 * MIB}),
        ("max_split_size_mb:40,", {"max_split_size": 40 * MIB}),
        ("max_split_size_mb:40,max_split_size_mb:50", {"max_split_size": 50 * MIB}),
        ("max_non_split_rounding_mb:24", {"max_non_split_rounding": 24 * MIB}),
        (
            "large_segment_size_mb:40",
            {"large_segment_size": 40 * MIB, "max_non_split_rounding": 40 * MIB},
        ),
        (
            "max_split_size_mb:40,large_segment_size_mb:40,max_non_split_rounding_mb:41",
            {
                "large_segment_size": 40 * MIB,
                "max_split_size": 40 * MIB,
                "max_non_split_rounding": 41 * MIB,
            },
        ),
        ("expandable_segments:True", {"expandable_segments": True}),
        (" expandable_segments : True , backend : native ", {"expandable_segments": True}),
        ("garbage_collection_threshold:.75", {"garbage_collection_threshold": 0.75}),
        ("per_process_memory_fraction:5e-1", {"per_process_memory_fraction": 0.5}),
        ("throw_on_cudamalloc_oom:True", {"throw_on_cudamalloc_oom": True}),
        ("roundup_power2_divisions:8", {"roundup_power2_divisions": (8,) * 16}),
        (
            "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
            {"roundup_power2_divisions": (*(1,) * 9, 2, 4, *(8,) * 5)},
        ),
        (
            "roundup_power2_divisions:[4:2, 16:0,]",
            {"roundup_power2_divisions": (2, 2, 2, *(0,) * 13)},
        ),
        ("roundup_power2_divisions:[>:4]", {"roundup_power2_divisions": (0, *(4,) * 15)}),
        ("roundup_power2_divisions:[1048576:4]", {"roundup_power2_divisions": (4,) * 16}),
        ("roundup_power2_divisions:[]", {}),
        (
            "roundup_power2_divisions:2,roundup_power2_divisions:[1:8]",
            {"roundup_power2_divisions": (8, *(2,) * 15)},
        ),
        ("pinned_use_background_threads:True,pinned_num_register_threads:128", {}),
        ("pinned_reserve_segment_size_mb:1,pinned_max_round_threshold_mb:0", {}),
    ],
)
def test_what_pytorch_reads_is_read(text, settings):
    assert parse_settings(text) == AllocatorSettings(**settings)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (",", "cannot read ','; expected entries as in"
         " 'max_split_size_mb:128,expandable_segments:True'"),
        ("max_split_size_mb=128", "cannot read 'max_split_size_mb=128'; expected entries as in"
         " 'max_split_size_mb:128,expandable_segments:True'"),
        ("backend:native,max_split_size_mb:", "cannot read 'max_split_size_mb:'; expected entries"
         " as in 'max_split_size_mb:128,expandable_segments:True'"),
        ("roundup_power2_divisions:[4:2", "cannot read 'roundup_power2_divisions:[4:2'; expected"
         " entries as in 'max_split_size_mb:128,expandable_segments:True'"),
        ("max_split_size_mb:128MB", "max_split_size_mb is '128MB'; expected whole MiB, 20"
         " (large_segment_size_mb) or more"),
        ("max_split_size_mb:-1", "max_split_size_mb is '-1'; expected whole MiB, 20"
         " (large_segment_size_mb) or more"),
        ("max_split_size_mb:20,large_segment_size_mb:22", "max_split_size_mb is '20'; expected"
         " whole MiB, 22 (large_segment_size_mb) or more"),
        ("max_non_split_rounding_mb:1.5", "max_non_split_rounding_mb is '1.5'; expected whole MiB,"
         " 20 (large_segment_size_mb) or more"),
        ("large_segment_size_mb:10", "large_segment_size_mb is '10'; expected whole MiB, 11 or"
         " more"),
        ("expandable_segments:true", "expandable_segments is 'true'; expected True or False"),
        ("expandable_segments:True,large_segment_size_mb:21", "expandable_segments:True maps pages"
         " of large_segment_size_mb, which must be even then, not 21"),
        ("garbage_collection_threshold:1", "garbage_collection_threshold is '1'; expected a number"
         " between 0 and 1, both excluded"),
        ("garbage_collection_threshold:nan", "garbage_collection_threshold is 'nan'; expected a"
         " number between 0 and 1, both excluded"),
        ("per_process_memory_fraction:1.5", "per_process_memory_fraction is '1.5'; expected a"
         " number from 0 to 1"),
        ("per_process_memory_fraction:1e999", "per_process_memory_fraction is '1e999'; expected a"
         " number from 0 to 1"),
        ("roundup_power2_divisions:3", "roundup_power2_divisions is '3'; expected a power of two,"
         " or a list as in [256:1,512:2,>:8]"),
        ("roundup_power2_divisions:[256:3]", "roundup_power2_divisions is '256:3'; expected sizes"
         " in MiB and their divisions, powers of two or 0, as in [256:1,512:2,>:8]"),
        ("roundup_power2_divisions:[256]", "roundup_power2_divisions is '256'; expected sizes in"
         " MiB and their divisions, powers of two or 0, as in [256:1,512:2,>:8]"),
        ("roundup_power2_divisions:[4:2,,8:4]", "roundup_power2_divisions is ''; expected sizes in"
         " MiB and their divisions, powers of two or 0, as in [256:1,512:2,>:8]"),
        ("throw_on_cudamalloc_oom:1", "throw_on_cudamalloc_oom is '1'; expected True or False"),
        ("backend:cudaMallocAsync", "backend:cudaMallocAsync is CUDA's own allocator, which"
         " is not modelled; use backend:native"),
        ("backend:fast", "backend is 'fast'; expected native"),
        ("pinned_num_register_threads:256", "pinned_num_register_threads is '256'; expected a"
         " power of two, 128 at most"),
        ("pinned_reserve_segment_size_mb:0", "pinned_reserve_segment_size_mb is '0'; expected a"
         " whole number, 1 or more"),
        ("pinned_max_cached_size_mb:x", "pinned_max_cached_size_mb is 'x'; expected a whole"
         " number"),
        ("release_lock_on_cudamalloc:yes", "release_lock_on_cudamalloc is 'yes'; expected True or"
         " False"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(text, problem):
    with pytest.raises(AllocatorSettingsError) as caught:
        parse_settings(text)
    assert str(caught.value) == f"PYTORCH_ALLOC_CONF: {problem}"


def test_an_unknown_key_is_told_the_known_ones():
    with pytest.raises(AllocatorSettingsError) as caught:
        parse_settings("max_split_size:128")
    text = str(caught.value)
    assert text.startswith(
        "PYTORCH_ALLOC_CONF: unknown key 'max_split_size'; expected one of large_segment_size_mb, "
    )
    assert "expandable_segments, " in text
    assert "\n" not in text


@given(st.text(alphabet="max_split_size_mb:backendroundup_power2_divisions[],0123456789> TrueFals"))
def test_any_text_is_read_or_refused_in_one_line(text):
    said = ""
    try:
        parse_settings(text)
    except AllocatorSettingsError as error:
        said = str(error)
    assert "\n" not in said


LARGE = AllocatorSettings(large_segment_size=40 * MIB, max_non_split_rounding=40 * MIB)


@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({}, AllocatorSettings()),
        ({"PYTORCH_ALLOC_CONF": "large_segment_size_mb:40"}, LARGE),
        ({"PYTORCH_CUDA_ALLOC_CONF": "large_segment_size_mb:40"}, LARGE),
        (
            {
                "PYTORCH_ALLOC_CONF": "large_segment_size_mb:50",
                "PYTORCH_CUDA_ALLOC_CONF": "large_segment_size_mb:40",
                "PYTORCH_HIP_ALLOC_CONF": "large_segment_size_mb:60",
            },
            LARGE,
        ),
        (
            {"PYTORCH_ALLOC_CONF": "large_segment_size_mb:40", "PYTORCH_CUDA_ALLOC_CONF": ""},
            AllocatorSettings(),
        ),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}, AllocatorSettings()),
    ],
)
def test_the_older_name_is_read_first(variables, settings):
    assert settings_from(variables) == settings


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"PYTORCH_CUDA_ALLOC_CONF": "x:1"}, "PYTORCH_CUDA_ALLOC_CONF: unknown key 'x'"),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "PYTORCH_NO_CUDA_MEMORY_CACHING=1 switches"
         " PyTorch's caching allocator off, and only that allocator is modelled: unset the"
         " variable"),
        ({"PYTORCH_HIP_ALLOC_CONF": ""}, "PYTORCH_HIP_ALLOC_CONF applies to some settings and not"
         " to others: set PYTORCH_CUDA_ALLOC_CONF instead"),
    ],
)  # fmt: skip
def test_an_environment_that_is_not_modelled_is_refused(variables, problem):
    with pytest.raises(AllocatorSettingsError) as caught:
        settings_from(variables)
    assert str(caught.value).startswith(problem)
