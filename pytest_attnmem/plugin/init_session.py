"""One session of ``attnmem init``, as a plugin that ``-p`` loads.

The option ``--attnmem-init`` names a JSON file, the request: ``limits`` are the chosen tests by
their place, ``test_attn.py:12``, each with a limit or with none, and null for every test;
``fitted`` are the tests to fit a form to, and ``answer`` is the file to write. A limit is a marker
that the source does not have: the test is measured as if it stood there.
"""

from __future__ import annotations

import json
from argparse import SUPPRESS
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

from ..report.record import Record, to_dict
from .item_arguments import further_arguments, sized_arguments
from .options import BASELINE, MARKER
from .plan import PLAN, takes_attnmem
from .row_writer import where
from .session import SESSION
from .session_outcome import UNLIMITED, SessionOutcome, stay_still

OPTION: Final = "--attnmem-init"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option of the request, which is for ``attnmem init`` alone."""
    parser.addoption(OPTION, help=SUPPRESS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, args: list[str]
) -> Generator[None, None, None]:
    """Keeps plugins still that start processes or trace lines."""
    stay_still(early_config, args)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the hooks of the session."""
    request = json.loads(Path(config.getoption(OPTION)).read_text("utf-8"))
    config.pluginmanager.register(InitSession(config, request), "attnmem-init")


class InitSession(SessionOutcome):
    """The hooks of a session that measures every test, or tries limits on the chosen ones."""

    def __init__(self, config: pytest.Config, request: dict[str, Any]) -> None:
        super().__init__(config.rootpath)
        self._config = config
        self._limits: dict[str, str] | None = request["limits"]
        self._fitted = {*request["fitted"]}
        self._answer = Path(request["answer"])
        self._forms: dict[str, str] = {}
        self._promising: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Has the session measure all tests, unless tests are chosen."""
        if self._limits is None:
            super().pytest_sessionstart(session)

    @pytest.hookimpl(tryfirst=True)  # the plugin reads the markers next
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leaves the chosen tests, and marks them."""
        if self._limits is None:
            return
        left_out = [item for item in items if where(item) not in self._limits]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if where(item) in self._limits]
        for item in items:
            if limit := self._limits[where(item)]:
                item.add_marker(getattr(pytest.mark, MARKER)(limit))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records a module that cannot be imported as a problem of its tests."""
        super().pytest_collectreport(report)
        if report.failed:
            self.problems.setdefault(report.nodeid, self.errors[-1])

    def pytest_attnmem_record(self, item: pytest.Item, record: Record) -> None:
        """Fits a form in all sizes of a test; a baseline's are those with usual names alone."""
        if takes_attnmem(item):  # it says itself what its parts may need
            self._promising.add(record.nodeid)
        if record.region or record.value is None or record.nodeid not in self._fitted:
            return
        self._fitted.remove(record.nodeid)
        usual, further = sized_arguments(item), further_arguments(item)
        if usual or further:
            self._forms[record.nodeid] = ""
        if not further:
            return
        from .fitted_forms import FormFitter

        primed = item.stash[PLAN].budgets[0][1]
        fitter = FormFitter(item, primed, arguments=usual | further)
        row = ("", record.metric)
        if form := fitter.fit({row: record.value}).get(row):
            self._forms[record.nodeid] = str(form)

    def _has_promise(self, row: Record) -> bool:
        """Returns True for a row of the first session that has a budget or an entry already."""
        recorded = row.baseline_bytes is not None
        promised = recorded or row.budget != UNLIMITED or row.nodeid in self._promising
        return self._limits is None and promised

    @pytest.hookimpl(trylast=True)  # the rows are complete
    def pytest_sessionfinish(self) -> None:
        """Writes the answer."""
        session = self._config.stash[SESSION]
        answer = {
            "rootdir": str(self._config.rootpath),
            "baseline": str(session.settings.baseline or self._config.rootpath / BASELINE),
            "errors": self.errors,
            "problems": self.problems,
            "promised": [row.nodeid for row in session.records if self._has_promise(row)],
            "forms": self._forms,
            "rows": [to_dict(row) for row in session.records if not self._has_promise(row)],
        }
        self._answer.write_text(json.dumps(answer), "utf-8")
