# Everything is installed in .venv and nowhere else. Needs Python 3.10 or newer, make, and gcc for the tests on fake GPUs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
DEMO := $(VENV)/demo
OLDER := .venv-compat
NEXT := .venv-next
OLD_KERAS := .venv-keras2
WITH_RAY := .venv-ray
STORE := .venv-store
REFERENCE := docs/reference
HOSTILE := tests/hostile tests/test_conforming.py tests/test_journal.py tests/test_redaction.py tests/doctor/test_no_files.py \
	tests/explain/test_linear.py tests/explain/test_crafted.py tests/run/directory/test_planted.py tests/run/checkpoint/test_manifest.py \
	tests/run/supervisor/test_effects.py tests/run/directory/test_bad_directories.py tests/run/script/test_closed_descriptors.py \
	tests/run/posix/test_few_descriptors.py tests/run/posix/test_no_proc.py tests/run/posix/test_outlived.py \
	tests/end_to_end/test_forged.py tests/end_to_end/test_other_keras.py
THREE := -n 3 --dist loadfile --no-loadscope-reorder
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)
OF_WORKERS := "fit_trains and not other and not two or undisturbed_training and not both and not four"
OF_KERAS_2 := tests/tensorflow/exact_step/test_steps_of_keras_2.py tests/tensorflow/names/test_keras_2_table.py \
	tests/end_to_end/test_keras_2.py
COMPATIBLE := tests/end_to_end/test_same.py tests/end_to_end/test_micro_batches.py

# Where it is set, as in many images for containers, each of a thousand processes would compile oomph and the tests anew.
unexport PYTHONDONTWRITEBYTECODE
export PIP_NO_CACHE_DIR := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export KERAS_HOME := $(CURDIR)/$(VENV)/keras

.DEFAULT_GOAL := help
.PHONY: help demo test test-all browser picture compat compat-keras2 next-keras check rig gpu-lane overhead sizing exactness architectures chaos resumed survival hostile kills worker-faults store-lane ray-lane slurm-lane two-hosts kernels changed mutations docs site golden transcript release install clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(DEMO) ## see oomph work: plain Keras dies, oomph finishes with the same result (a few minutes)
	@$(BIN)/oomph demo

test: $(READY) ## the tests, on fake GPUs where one is needed (a quarter of an hour on two cores)
	$(BIN)/python -m pytest -m "not slow and not gpu and not alone and not browser" $(THREE)
	$(BIN)/python -m pytest -m "alone and not slow and not gpu and not browser" $(ALONE)

test-all: $(READY) ## the tests, the slow ones included, with new examples of what any input must hold
	HYPOTHESIS_PROFILE="new examples" $(BIN)/python -m pytest -m "not gpu and not alone and not browser" $(THREE)
	HYPOTHESIS_PROFILE="new examples" $(BIN)/python -m pytest -m "alone and not gpu and not browser" $(ALONE)

browser: $(READY) ## the report in Chromium, if there is one; the screenshots are in build/report (a minute)
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	$(BIN)/python -m pytest -m "browser" tests/report

picture: $(READY) ## retake the picture of the report in docs/tutorial, in Chromium (two minutes)
	$(BIN)/python -m pip install --quiet --editable '.[browser]'
	$(BIN)/python tests/report/picture.py

check: $(READY) ## style, types and the directions between the packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

rig: ## build the fake NVIDIA driver and libraries of tests/rig (needs gcc)
	sh tests/rig/build.sh tests/rig/built

compat: ## the exact step and fit of several workers with TensorFlow 2.17 and Keras 3.5, in an environment of its own (Python 3.10 to 3.12)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 13))' || { echo "TensorFlow 2.17 does not exist for this Python: skipped"; exit 0; } && \
	{ test -x $(OLDER)/bin/python || $(PYTHON) -m venv $(OLDER); } && \
	$(OLDER)/bin/python -m pip install --quiet --editable . 'tensorflow==2.17.*' 'keras==3.5.*' pytest pytest-timeout hypothesis && \
	$(OLDER)/bin/python -m pytest -m "not slow and not gpu and not rig" tests/tensorflow/names tests/tensorflow/interception && \
	$(OLDER)/bin/python -m pytest -m "not gpu and not rig" -k "test_same or graph" $(COMPATIBLE) && \
	$(OLDER)/bin/python -m pytest -k $(OF_WORKERS) tests/end_to_end/test_fit_of_workers.py

compat-keras2: ## the exact step with Keras 2, in TensorFlow 2.15 and 2.12 (Python 3.10 and 3.11)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || { echo "TensorFlow 2.12 does not exist for this Python: skipped"; exit 0; } && \
	for version in 2.15 2.12; do \
	{ test -x $(OLD_KERAS)-$$version/bin/python || $(PYTHON) -m venv $(OLD_KERAS)-$$version; } && \
	$(OLD_KERAS)-$$version/bin/python -m pip install --quiet --editable . "tensorflow==$$version.*" pytest pytest-timeout hypothesis && \
	$(OLD_KERAS)-$$version/bin/python -m pytest $(OF_KERAS_2) || exit 1; done

next-keras: ## look for oomph's private names in the newest Keras and TensorFlow: nightly builds, else pre-releases
	rm -rf $(NEXT) && $(PYTHON) -m venv $(NEXT)
	$(NEXT)/bin/python -m pip install --quiet --editable . pytest pytest-timeout hypothesis
	$(NEXT)/bin/python -m pip install --quiet --pre tf-nightly keras-nightly || \
	$(NEXT)/bin/python -m pip install --quiet --pre --upgrade tensorflow keras
	$(NEXT)/bin/python -m pytest -rf tests/tensorflow/names tests/tensorflow/runtime/test_patching.py

gpu-lane: $(READY) ## the checks that need an NVIDIA GPU
	$(BIN)/python benchmarks/gpu_lane.py

overhead: $(READY) ## measure what the guard costs when nothing goes wrong
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/many_calls.py

sizing: $(READY) ## count the out-of-memory errors that finding a micro-batch takes, from 1 to 64 times too big
	$(BIN)/python benchmarks/sizing.py

exactness: $(READY) ## train 56 small scripts whole and divided, compare every weight (an hour on two cores)
	$(BIN)/python benchmarks/exactness.py --out build/exactness.md

architectures: $(READY) ## the same for twenty public architectures (hours on two cores)
	$(BIN)/python -m pip install --quiet keras-hub
	$(BIN)/python benchmarks/exactness.py --cases benchmarks/architectures.py --work build/architectures --out build/architectures.md

chaos: $(READY) ## 200 small trainings through random faults, beside two baselines (up to an hour; call it again to go on)
	$(BIN)/python benchmarks/chaos.py --out build/chaos

resumed: $(READY) ## 91 trainings killed and resumed, each compared in every bit (most of a day on two cores; call it again to go on)
	$(BIN)/python -m pip install --quiet keras-tuner optuna optuna-integration scikit-learn pandas
	$(BIN)/python benchmarks/resumed.py --out build/resumed

survival: $(READY) ## train the scripts of SCRIPTS=FOLDER in too little memory, at six limits each (hours on two cores)
	$(BIN)/python benchmarks/survival.py --scripts "$(SCRIPTS)" --out build/survival

hostile: $(READY) ## attacks and odd surroundings, 882 of them (20 minutes on two quiet cores); the fast ones are part of make test
	HYPOTHESIS_PROFILE="new examples" $(BIN)/python -m pytest -m "not gpu" -k "not ten_thousand" -n 3 --dist worksteal $(HOSTILE)

kills: $(READY) ## 300 kills of script, supervisor and watchdog at random moments (8 minutes on two cores)
	$(BIN)/python benchmarks/kills.py --out build/kills

worker-faults: $(READY) ## 50 random faults in four workers, 20 kills of their launcher (2 minutes on two cores)
	$(BIN)/python benchmarks/worker_faults.py

slurm-lane: $(READY) ## two workers through a real Slurm on this machine: killed, preempted, requeued (needs slurm-wlm and munge; 5 minutes)
	$(BIN)/python benchmarks/slurm_lane.py

two-hosts: $(READY) ## two workers in network namespaces, whose cable is pulled, and one of which is taken away (needs root; 4 minutes)
	$(BIN)/python benchmarks/two_hosts.py

ray-lane: ## several workers on Ray: kills, lost nodes, a hang, its storage; beside plain Ray Train (an environment of its own, 12 minutes)
	test -x $(WITH_RAY)/bin/python || $(PYTHON) -m venv $(WITH_RAY)
	$(WITH_RAY)/bin/python -m pip install --quiet --editable '.[demo,ray]' 'ray[train]' 'moto[server]>=5' pytest pytest-timeout hypothesis
	$(WITH_RAY)/bin/python -m pytest tests/end_to_end/test_ray.py tests/run/store/test_ray_storage.py
	$(WITH_RAY)/bin/python benchmarks/ray_lane.py

store-lane: ## runs copied to a real S3 server, which refuses, breaks off or hangs, in an environment of its own (2 minutes)
	test -x $(STORE)/bin/python || $(PYTHON) -m venv $(STORE)
	$(STORE)/bin/python -m pip install --quiet --editable '.[store]' s3fs 'moto[server]>=5' pytest pytest-timeout hypothesis
	$(STORE)/bin/python -m pytest tests/run/store

kernels: $(READY) ## 100 kills of a notebook's kernel in nbclient, 100 of it, its supervisor and its server (12 minutes on two cores)
	$(BIN)/python benchmarks/notebook_kills.py

changed: $(READY) ## resume 186 trainings after a change of arguments, environment, code or data (half an hour on two cores)
	$(BIN)/python benchmarks/changed.py --out build/changed

mutations: $(READY) ## put mistakes into src one at a time, and see whether the nearest tests notice (16 minutes)
	$(BIN)/python benchmarks/mutations.py

docs: $(READY) ## write the pages of docs/reference that are made from the code and from CHANGELOG.md
	$(BIN)/python -m oomph.explain.catalogue.docs $(REFERENCE)/faults
	$(BIN)/python -m oomph.doctor.docs $(REFERENCE)/doctor-checks.md
	$(BIN)/python -m oomph.monitor.docs $(REFERENCE)/monitor-findings.md
	$(BIN)/python -m oomph.preflight.docs $(REFERENCE)/check-rules.md
	$(BIN)/python -m oomph.watch.docs $(REFERENCE)/metrics.md
	$(BIN)/python -m oomph.cli.docs $(REFERENCE)/command-line.md $(REFERENCE)/configuration.md
	$(BIN)/python -m oomph.api.docs $(REFERENCE)/python.md
	$(BIN)/python -m oomph.journal.docs $(REFERENCE)/journal.md
	sed 's|](docs/|](../|g' CHANGELOG.md >$(REFERENCE)/changelog.md

site: docs ## build the documentation in build/site; a broken link or anchor is an error
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	NO_COLOR=1 $(BIN)/zensical build --strict --clean

golden: $(READY) ## rewrite tests/terminal/golden and tests/watch/golden, which show what oomph prints; read the difference
	$(BIN)/python tests/terminal/captures.py
	$(BIN)/python tests/watch/views.py

transcript: $(READY) ## run the demo, and put what it prints into README.md (3 minutes)
	$(BIN)/python tests/documents/transcript.py

release: $(READY) ## build dist/ for a release, check it, and say what to upload; uploads nothing (3 minutes)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	@$(BIN)/python -m pip install --quiet twine || echo "no twine: its check of the metadata is left out"
	@! test -x $(BIN)/twine || $(BIN)/twine check --strict dist/*
	OOMPH_DIST=dist $(BIN)/python -m pytest -m "" tests/package
	@! grep -q '^## .* (unreleased)' CHANGELOG.md || echo "CHANGELOG.md still says (unreleased)"
	@echo "to upload:" && ls -l dist

install: $(READY) ## install oomph and what the other targets need in .venv

clean: ## remove everything that make, the tests and the tools have written
	rm -rf $(VENV) $(OLDER) $(NEXT) build dist tests/rig/built .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf $(REFERENCE)/faults $(addprefix $(REFERENCE)/,changelog.md check-rules.md command-line.md configuration.md doctor-checks.md journal.md metrics.md monitor-findings.md python.md)
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

PYTHON_IS_NEW = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  echo "oomph needs Python 3.10 or newer, and $(PYTHON) is older or missing: make PYTHON=python3.12 names another." >&2; exit 1; }

# These two are written last, and newer than pyproject.toml only when the installation has succeeded.
$(READY): pyproject.toml hatch_build.py
	$(PYTHON_IS_NEW)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(DEMO) $@

# What the demo needs, and none of the tools for the tests.
$(DEMO): pyproject.toml hatch_build.py
	$(PYTHON_IS_NEW)
	@$(PYTHON) install_demo.py $(VENV) '.[demo]'
	@touch $@
