from pytest_attnmem.nulldevice.planner_process import PlanFile


def test_answers_are_read_again_in_another_session(tmp_path):
    path = tmp_path / "cudnn" / "plans.txt"
    assert PlanFile(path).read() == {}
    PlanFile(path).append('{"of":"forward"}', 512)
    PlanFile(path).append('{"of":"input"}', 0)
    assert PlanFile(path).read() == {'{"of":"forward"}': 512, '{"of":"input"}': 0}


def test_a_damaged_line_is_left_out(tmp_path):
    path = tmp_path / "plans.txt"
    for number in range(3):
        PlanFile(path).append(f"question {number}", number)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b" 1 question 1", b" 7 question 1")[:-4] + b"\n\xff\0half a li")
    assert PlanFile(path).read() == {"question 0": 0}
    PlanFile(path).append("question 1", 1)
    assert PlanFile(path).read() == {"question 0": 0}  # the torn line takes the next with it
    PlanFile(path).append("question 1", 1)
    assert PlanFile(path).read() == {"question 0": 0, "question 1": 1}


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path):
    (tmp_path / "file").touch()
    PlanFile(tmp_path / "file" / "plans.txt").append("question", 1)
    assert PlanFile(tmp_path / "file" / "plans.txt").read() == {}
