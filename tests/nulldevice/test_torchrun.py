"""The environment of a rank, as torchrun sets it."""

from pytest_attnmem.nulldevice.torchrun import begin, end, ended, rank_environment, started


def test_a_rank_of_the_last_node_has_its_place_on_it():
    found = rank_environment(9, 11, 8)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")
    assert [found[name] for name in names] == ["9", "1", "11", "3", "1"]
    assert found["GROUP_WORLD_SIZE"] == "2"


def test_ranks_start_and_end(tmp_path):
    begin(tmp_path, 3)
    assert (started(tmp_path, 3), ended(tmp_path, 3), started(tmp_path, 2)) == (True, False, False)
    end(tmp_path, 3)
    assert ended(tmp_path, 3)
