# Two commands: `make demo` shows the plugin at work, `make test` checks it. Both set up their own environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := build/demo
FIGURES := build/figures

# torch without CUDA, of the tests; and with CUDA, of the null device, as in `make record TORCH=2.15.0`.
CPU_TORCH := 2.13.0
TORCH     ?= 2.15.0
NULL      := .venv-null-$(TORCH)
ON_NULL   := tests/null $(wildcard tests/verdicts/*_on_null.py)
NOX       := nox@2026.10.20
DOCS      := .venv-docs
BENCH     := .venv-bench
STRANGERS := .venv-suites/strangers

# uv takes seconds where pip takes minutes. pip's place of local builds must be named to it. Both compile the modules: the
# first processes would, each for itself.
ifneq ($(shell command -v uv),)
venv    = uv venv --quiet --allow-existing --python $(PYTHON) $(1)
install = uv pip install --quiet --compile-bytecode --python $(1)
ifneq ($(PIP_FIND_LINKS),)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif
else
venv    = $(PYTHON) -m venv $(1)
install = $(1)/bin/python -m pip install --quiet
endif

# With bytecode, or each of the processes that tests start would compile everything anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo figures docs test test-all device-gate gpu fuzz test-tools soak coverage coverage-c mutation install-null test-null lint matrix bench record accuracy compiled suites strangers pytorch-suite published histories order null-versions platforms first-hour docs-version clean
.DELETE_ON_ERROR:

# A regression as a user meets it; then all examples, with their table and their page. With one thread, the bytes are
# the same on every machine, and a busy machine is not slower. A path after a space would change pytest's rootdir as soon
# as the file exists, and with it the ini file; hence the =.
demo: export OMP_NUM_THREADS = 1
demo: $(VENV)/base
	@mkdir -p $(DEMO)
	@echo "A mask is copied for each element of the batch. The outputs stay the same, and the budget fails:"
	@$(BIN)/python -m pytest examples/test_regression.py --runxfail --quiet --no-header; test $$? -eq 1
	@echo && echo "All examples:"
	@$(BIN)/python -m pytest examples --ignore examples/case_studies --ignore examples/compiled --attnmem-report --attnmem-html=$(DEMO)/report.html --attnmem-json=$(DEMO)/report.json
	@echo && echo "The page: $(DEMO)/report.html. Try next:"
	@echo "  $(BIN)/attnmem predict sdpa-flash --backward --dtype bfloat16 --B 1 --H 16 --N 131072 --d 128 --device H100"
	@echo "  $(BIN)/attnmem derive pytest_attnmem.kernels.standard:attention 'B H N d' 'B H N d' 'B H N d' --backward"
	@echo "  $(BIN)/python -m pytest examples/test_standard.py --attnmem-backend simulated:H100 --attnmem-report"

# The figures and the report of docs/evidence/documents.md, in build/figures.
figures: $(VENV)/installed
	mkdir -p $(FIGURES)
	$(BIN)/attnmem sweep --kernel textbook,checkpointed,flash,sliding-window,ring:4 --d 64 --n 1024,4096,8192,16384 \
		--backward --simulate --device "GTX 1080" --json $(FIGURES)/sweep.json --markdown $(FIGURES)/sweep.md
	$(BIN)/attnmem plot $(FIGURES)/sweep.json -o $(FIGURES)/sweep.png
	$(BIN)/attnmem sweep --kernel textbook --d 16,32,64,128 --n 256,1024,4096,8192,16384 \
		--backward --simulate --device "GTX 1080" --markdown $(FIGURES)/benchmark_report.md
	$(BIN)/attnmem roofline --params 7e9 --layers 32 --d-model 4096 --heads 32 --batch 8 --plot $(FIGURES)/roofline.png
	$(BIN)/python examples/figures.py $(FIGURES)
	@echo "written: $$(ls $(FIGURES) | tr '\n' ' ')"

# The site, in build/site: strict, so a link or an anchor that leads nowhere is an error.
docs: $(DOCS)/installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet
	@echo "The site: build/site/index.html"

# The site of this version beside those of others, in the branch gh-pages, which has their selector: a commit, and no push.
docs-version: $(DOCS)/installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mike deploy --update-aliases \
		$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' pytest_attnmem/__init__.py) latest
	$(DOCS)/bin/mike set-default latest

# The tests that need a browser, whose own work takes longer than what they test.
TOOLS := tests/report/browser

test-tools: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --dist loadfile $(TOOLS)

# The tests that visit every object of their process, again and again: a worker of the suite has a million of them.
HEAP := tests/measurement/test_garbage.py tests/plugin/test_garbage.py

# Each kind of test, with at most three cases of it; test-all runs every case of each. A file to a worker at a time, or
# each worker would make the costly fixtures of it anew. The linters and the tests of HEAP run meanwhile, on the core that
# is idle where one worker has ended; their text comes last.
test: CASES = --cases 3
test-all: CASES =
test test-all: $(VENV)/installed
	@mkdir -p build; { $(MAKE) --no-print-directory lint && $(BIN)/python -m pytest $(CASES) $(HEAP); } \
		> build/meanwhile.txt 2>&1 & \
	$(BIN)/python -m pytest $(CASES) -n auto --dist loadfile $(addprefix --ignore ,$(TOOLS) $(HEAP)); tests=$$?; \
	wait $$!; meanwhile=$$?; cat build/meanwhile.txt; exit $$((tests | meanwhile))

# Ten minutes of bad input for every parser and file, what the worst of it costs, and inputs that coverage guides.
fuzz: $(VENV)/installed
	ATTNMEM_FUZZ_EXAMPLES=4000 $(BIN)/python -m pytest tests/fuzz
	$(BIN)/python tests/fuzz/run.py
	$(call install,$(VENV)) --constraint constraints.txt atheris
	for target in formula results baseline verification; do \
		$(BIN)/python tests/fuzz/guided.py $$target $(or $(SECONDS),60) || exit 1; done

# A suite of all kinds of tests, again and again in random order: `make soak RUNS="--cpu 20 --simulated 10"`.
soak: $(VENV)/installed
	$(BIN)/python tests/soak/run.py $(RUNS)

# Lines and branches of the package that the tests run, processes that they start included; after `make install-null`
# those on the null device too, with the kernels that Triton interprets.
coverage: $(VENV)/installed
	$(call install,$(VENV)) --constraint constraints.txt coverage
	@mkdir -p build/coverage && rm -f build/coverage/*
	$(BIN)/python -m coverage run -m pytest -n auto --dist loadfile
	if test -e $(NULL)/installed; then \
		$(call install,$(NULL)) --constraint constraints.txt coverage && \
		$(NULL)/bin/python -m coverage run -m pytest $(ON_NULL) tests/kernels/test_flash_triton.py \
			-n auto --dist loadfile; fi
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered

# The C code of the null runtime, by gcov: `make coverage-c TESTS=tests/null/test_device.py` runs a part.
coverage-c: $(NULL)/installed
	$(NULL)/bin/python tests/nulldevice/gcov.py $(TESTS)

# One small change of the deciding modules at a time, which a test must notice: `make mutation MODULES=budgets/verdict`.
mutation: $(VENV)/installed
	$(BIN)/python tests/mutation/run.py $(MODULES)

# On a machine with a GPU: its bytes beside those of the backends that stand for it, and the tests of the CUDA backend.
gpu: $(NULL)/installed
	@mkdir -p build
	$(NULL)/bin/attnmem verify --json build/gpu.json
	$(NULL)/bin/python -m pytest tests/gpu

# On the null device, which needs the CUDA build of torch: some 5 GB, in an environment of its own. The simulated device
# stands there without a GPU too.
install-null: $(NULL)/installed

test-null: $(NULL)/installed
	$(NULL)/bin/python -m pytest $(ON_NULL) -n auto
	$(NULL)/bin/python -m pytest tests/backends/simulated -n auto

# Python × torch × pytest, and the plugins: `make matrix CELLS="--tags main"` runs some of the cells.
matrix:
	@command -v uv > /dev/null || { echo "make matrix needs uv: pip install uv" >&2; exit 1; }
	uv tool run $(NOX) $(CELLS)

# What the tests compare with, measured anew on the null device.
record: $(NULL)/installed
	for name in operators attention allocator programs held_out opinfo expressions devices \
		convolutions convolution_plans; do \
		$(NULL)/bin/python tests/null/record_$$name.py || exit 1; done
	$(NULL)/bin/python tests/null/record.py

# What the simulation makes of it, side by side with what was recorded and published.
accuracy: $(VENV)/installed
	$(BIN)/python tests/opinfo.py
	$(BIN)/python tests/accuracy.py
	for python in $(wildcard .venv-null-*/bin/python); do $$python tests/accuracy.py || exit 1; done

# The simulated device beside the null device: an hour, into tests/device_gate.
device-gate: $(VENV)/installed
	$(BIN)/python tests/device_gate/run.py --null .venv-null-$(CPU_TORCH)/bin/python

# Common modules, eager and compiled, with each CUDA build of torch; the first compilations take minutes.
compiled: $(NULL)/installed
	for python in $(wildcard .venv-null-*/bin/python); do \
		$$python -m pytest_attnmem.cli run --device A100-80GB -- benchmarks/compiled_modules.py || exit 1; done
	$(NULL)/bin/python benchmarks/compiled_page.py

# The tests of other projects, with the plugin: some GB of environments, and an hour. `make suites ONLY=peft` runs one.
suites: $(VENV)/installed
	$(BIN)/python tests/suites/run.py $(ONLY)
	$(BIN)/python tests/suites/page.py

# Models of libraries that know nothing of this package, on null and simulated: an environment of 6 GB, and half an hour.
# `make strangers ONLY=glom` runs one again.
strangers: $(STRANGERS)/installed
	$(STRANGERS)/bin/python tests/suites/strangers.py $(ONLY)
	$(STRANGERS)/bin/python tests/suites/page.py

# The null device on each version of PyTorch, from its wheel alone: `make null-versions VERSIONS="2.4.1 2.15.0"` runs some.
null-versions: $(VENV)/installed
	$(BIN)/python tests/versions/run.py $(VERSIONS)

# What simulated takes of PyTorch's libraries, read in the wheels for macOS and Windows: `make platforms VERSIONS=2.15.0`.
platforms: $(VENV)/installed
	$(call install,$(VENV)) lief pip
	$(BIN)/python tests/versions/platforms.py $(VERSIONS)

# PyTorch's own tests of memory on the null device; `make pytorch-suite ONLY=inductor/test_memory.py` runs one file.
pytorch-suite: $(VENV)/installed
	$(BIN)/python tests/suites/pytorch.py $(ONLY)
	$(BIN)/python tests/suites/pytorch_page.py

# Numbers that others published of real GPUs, and what null says of the same work: an hour, and an environment of some GB
# for each version of PyTorch. `make published ONLY=liger` runs one source.
published:
	$(PYTHON) tests/published/run.py $(ONLY)
	$(PYTHON) tests/published/page.py

# The memory of libraries over their commits, from bare clones in FOLDER: hours; what was measured before is kept.
histories: $(VENV)/installed
	$(BIN)/python -m tests.history.libraries $(FOLDER) $(ONLY)
	$(BIN)/python -m tests.history.libraries_page build/histories/*.json

# One baseline of other projects' tests, compared in many orders: `make order ONLY=litgpt` runs one.
order: $(VENV)/installed
	$(BIN)/python tests/suites/order.py $(ONLY)

# What a user meets first, in the environments that people have, into docs/evidence/first-hour.md; needs uv.
# `make first-hour PLACES="'a notebook'"` runs some.
first-hour: $(VENV)/installed
	$(BIN)/python tests/first_hour/run.py $(PLACES)

# Timings are for reading, and never asserted. With the null device after `make install-null TORCH=2.13.0`:
# the programs' peaks are compared, so both builds are of one version. benchmarks/cost.py measures its table alone.
bench: $(BENCH)/installed
	$(BENCH)/bin/python benchmarks/performance_page.py \
		$(addprefix --null ,$(wildcard .venv-null-$(CPU_TORCH)/bin/python))
	$(BENCH)/bin/python benchmarks/kernels.py
	$(BENCH)/bin/python benchmarks/reports.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch comes first and by exact version: a range would take the build with several GB of CUDA libraries.
$(VENV)/base: pyproject.toml constraints.txt
	$(call venv,$(VENV))
	$(call install,$(VENV)) "torch==$(CPU_TORCH)"
	$(call install,$(VENV)) --constraint constraints.txt --editable '.[torch]'
	touch $@

$(VENV)/installed: $(VENV)/base
	$(call install,$(VENV)) --constraint constraints.txt --editable '.[test,lint]'
	touch $@

# === takes the build of PyPI, with CUDA, and none with a local version such as 2.13.0+cpu.
$(NULL)/installed: pyproject.toml constraints.txt
	$(call venv,$(NULL))
	$(call install,$(NULL)) "torch===$(TORCH)"
	$(call install,$(NULL)) --constraint constraints.txt --editable '.[test-null]'
	touch $@

# In one command, or a library takes a newer torch.
$(STRANGERS)/installed: tests/suites/strangers.txt
	$(call venv,$(STRANGERS))
	$(call install,$(STRANGERS)) "torch===$(TORCH)" --requirement $< --editable '.[test-null]'
	touch $@

# In the environment of the tests, the plugins that are timed would take part in them.
$(BENCH)/installed: pyproject.toml constraints.txt
	$(call venv,$(BENCH))
	$(call install,$(BENCH)) "torch==$(CPU_TORCH)"
	$(call install,$(BENCH)) --constraint constraints.txt --editable '.[test,bench]'
	touch $@

# The site needs neither torch nor the plugin.
$(DOCS)/installed: pyproject.toml constraints.txt
	$(call venv,$(DOCS))
	$(call install,$(DOCS)) --constraint constraints.txt mkdocs-material mike
	touch $@

clean:
	rm -rf $(VENV) $(DOCS) $(BENCH) .venv-null* .venv-suites .venv-versions .nox
