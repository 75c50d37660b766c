# svcfs: make demo shows it, make test proves it. It needs Go and git;
# mounting as an ordinary user also needs fusermount3 (package fuse3).

GO ?= go
PREFIX ?= /usr/local
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Not asked: names that look like credentials (G101), programs and paths that the
# user names (G204, G304), modes wider than 0600 where others shall read, man
# pages and the tests' database (G301, G306), and chance that is no secret, the
# jitter of retries (G404).
GOSEC ?= $(GO) tool -modfile=integration/tools/go.mod gosec -quiet -exclude-dir=integration -exclude=G101,G204,G301,G304,G306,G404
# The benchmark and other people's test vectors need what the programs do not.
MODULES = . integration/bench integration/vectors
FUZZTIME ?= 30s
FUZZ_SKIP ?=
# make demo: DIR=PATH keeps its data there, DEMO_FROM=PATH also sends that
# folder's files, ONCE=1 cleans up and ends.
DIR ?=
ONCE ?=
TESTFLAGS ?=
TESTS ?=
# The commit is in the programs where git tells it; it does not in another user's clone.
STAMP = $(shell git status >/dev/null 2>&1 && echo auto || echo false)
BENCH ?=
BENCHFLAGS ?=

# Without tables for a debugger, which are a seventh of the work of compiling; go build makes them. The same flags
# for the programs and the tests: nothing is compiled twice.
export GOFLAGS := $(shell $(GO) env GOFLAGS 2>/dev/null) -trimpath -gcflags=all=-dwarf=false

.DEFAULT_GOAL := help

.PHONY: help build dist packages demo test test-all landing vet gofmt lint staticcheck gosec vectors bench bench-works fuzz vulnerabilities suites scale man install uninstall clean require-go require-fuse s3-server soak cuts cluster at-home

help:
	@echo "make demo      mount two accounts on a service of their own (ONCE=1: check and end)"
	@echo "make build     bin/svcfs, bin/svcd and bin/svcvault"
	@echo "make test      gofmt, each test once (TESTS=./sdk/...: of some packages)"
	@echo "make test-all  the rest: with the race detector, on PostgreSQL, as root, long tests, vet, staticcheck, gosec, fuzz"
	@echo "make bench     svcfs beside its floor and its peers (BENCH=quick, growth, service, large, network or programs)"
	@echo "make dist      dist/: tar.gz, deb and rpm for amd64 and arm64, an OCI image, SBOMs and hashes (KEY=FILE: signed)"
	@echo "make cluster   failovers of PostgreSQL and rolling upgrades under load (TURNS=10)"
	@echo "make lint fuzz suites man install uninstall clean"

build: require-go
	@test -e bin/svcfs || echo "The first build fetches the modules it needs and takes a few minutes; later ones take seconds."
	CGO_ENABLED=0 $(GO) build -buildvcs=$(STAMP) $(if $(VERSION),-ldflags=-X=github.com/svcfs/svcfs/sdk/wire.stamped=$(VERSION)) -o bin/ ./cmd/...

# A Go from 1.21 on fetches the version that go.mod asks for; older ones only complain about go.mod.
require-go:
	@command -v $(GO) >/dev/null || { echo "make: $(GO) is missing: install Go 1.21 or later from https://go.dev/dl/ and put its bin into PATH" >&2; exit 1; }
	@case "$$($(GO) version)" in *" go1."[0-9].*|*" go1.1"[0-9]*|*" go1.20"*) echo "make: $$($(GO) version) is too old: install Go 1.21 or later from https://go.dev/dl/" >&2; exit 1;; esac

demo: build
	./bin/svcfs demo $(if $(ONCE),--once) $(if $(DIR),"$(DIR)")

# Each test once; what a missing program leaves out is in the last line.
test: require-go
	@$(GO) run -buildvcs=false ./integration/runtests quick $(TESTS)

# The rest: the other engine, as root, with the race detector on real programs, long, at random.
test-all: require-go require-fuse s3-server
	@$(GO) run -buildvcs=false ./integration/runtests all

# What .ci/run runs of it after make test.
landing: require-go
	@$(GO) run -buildvcs=false ./integration/runtests landing

# Mounting for real. Root needs no helper; a user does.
require-fuse:
	@lacks=; lack() { echo "make: $$1" >&2; lacks=1; }; \
	if ! test -e /dev/fuse; then lack "/dev/fuse is missing: run modprobe fuse, or start the container with --device /dev/fuse --cap-add SYS_ADMIN"; \
	elif ! test -r /dev/fuse -a -w /dev/fuse; then lack "this user may not open /dev/fuse: sudo chmod 666 /dev/fuse"; fi; \
	test "$$(id -u)" = 0 || command -v fusermount3 >/dev/null || lack "fusermount3 is missing: apt-get install fuse3"; \
	test -z "$$lacks"

# The S3 server of the tests, in the version that integration/tools pins.
s3-server:
	cd integration/tools && $(GO) install tool

# svcfs mcp asked by the reference inspector of the protocol, which npm fetches.
at-home: build dist
	integration/inspector.sh
	packaging/check
	SUITE=bookworm packaging/at-home
	SUITE=trixie packaging/at-home
	packaging/at-home-desktop

vet:
	@set -e; for dir in $(MODULES); do (set -x; cd $$dir && $(GO) vet ./...); done

gofmt:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run: gofmt -w ." >&2; exit 1; }

lint: gofmt vet staticcheck

staticcheck:
	@set -e; for dir in $(MODULES); do (set -x; cd $$dir && $(STATICCHECK) ./...); done

# gosec asks go for the version of the module at each loop that it looks at, unless it is told.
gosec:
	GOSECGOVERSION="$$($(GO) list -m -f '{{.GoVersion}}')" $(GOSEC) ./...

vectors:
	cd integration/vectors && $(GO) test $(TESTFLAGS) ./...

# BENCH=quick: small sizes, once; growth: time and memory against size; service:
# svcd against its stores; large: files of up to 4 GiB beside the peers (large-quick:
# small ones), which takes 25 GB of disk; network: on slow lines beside the peers
# (network-quick: small), RCLONE=PATH names another rclone; programs: tar, unzip, git, venv and npm (programs-quick:
# few files). A peer that is not installed is named in the table. All:
#   apt-get install gocryptfs rclone sshfs openssh-server s3fs postgresql fuse3
#   make s3-server
bench:
	$(GO) build -C integration/bench -buildvcs=false -o ../../bin/bench .
	BENCH="$(BENCH)" ./bin/bench $(BENCHFLAGS)

# The benchmark, small: that it works, not how fast. Each of the ten rows of the line of the
# targets, without the peers, has a time beside the line's own limit.
bench-works:
	@out="$$(mktemp -d)"; trap 'rm -rf "$$out"' EXIT; \
	$(MAKE) bench BENCH=quick BENCHFLAGS="-out $$out" && grep -q '^## Targets' "$$out/results.md" && \
	$(MAKE) bench BENCH=network-quick BENCHFLAGS="-only svcfs -out $$out" && \
	test "$$(grep -cE '^\| 60 ms, [^|]* \| svcfs \| [0-9]' "$$out/network.md")" = 10

# The long forms of other people's suites on a mount: fio, postmark, dbench, bonnie++, stress-ng.
# PJDFSTEST=DIR and XFSTESTS=DIR name suites that were built there, and run those instead,
# as root: integration/SUITES.md.
PJDFSTEST ?=
XFSTESTS ?=
suites: require-fuse
	SVCFS_LONG=1 PJDFSTEST="$(PJDFSTEST)" XFSTESTS="$(XFSTESTS)" $(GO) test -v -count=1 -timeout 3h \
		-run '^Test$(if $(PJDFSTEST)$(XFSTESTS),SuitesOfOthers,(Suites|Stressors))$$' ./integration

# 100,000 files in a group, 1 GiB, GIB GiB through small budgets: the figures.
GIB ?= 4
scale: require-fuse
	SVCFS_LONG=1 SVCFS_GIB=$(GIB) $(GO) test -v -count=1 -timeout 2h -run '^Test(M6LargeGroup|LargeFile|ThousandOpenFiles|ByteBudgetsUnderPressure|Threat8BombsOnAMount|R1ManyReadersPayOnce|R10LargeFileTakesLittleMemory|W17MemoryOfLargeFiles|W18SavesSendWhatChanged|W18ServiceKilledDuringASave|E2SlowLine)$$' ./integration

# An upload of 1 GiB over 100 connections that are cut, and to a service that is killed 100
# times; 20 lines appended to 200 MiB: integration/LARGE.md has the figures.
cuts:
	SVCFS_LONG=1 $(GO) test -v -count=1 -timeout 1h -run '^Test(LargeUploadCut|AppendsSendLittle)$$' ./integration

# The long runs: many random operations on a file in each way of reading it, KILLS kills of
# the service and of the mount each and a KILLS/25 of turns in which parts of a cluster fail,
# the loss of power behind LOSSES operations of a disk (all = each), and many rounds of many
# clients. SEED=0 chooses anew; a log names what it chose. integration/RELIABILITY.md has
# the figures.
KILLS ?= 500
LOSSES ?= all
ROUNDS ?= 50
STEPS ?= 20000
SEED ?= 0
soak:
	$(GO) test -count=1 -timeout 3h -run '^TestRandomIO$$' ./integration -seed $(SEED) -steps $(STEPS)
	SVCFS_KILLS=$(KILLS) $(GO) test -v -count=1 -timeout 6h -run '^Test(Service|Mount)KilledAtRandomMoments$$|^TestHistoryOfACluster$$' ./integration -seed $(SEED)
	SVCFS_LOSSES=$(LOSSES) $(GO) test -count=1 -timeout 6h -run '^TestPowerLoss' ./integration -seed $(SEED)
	SVCD_CLIENT_ROUNDS=$(ROUNDS) $(GO) test -count=1 -timeout 1h -run TestManyClients ./service

# Operating several machines: a primary of PostgreSQL that is killed and its standby promoted, TURNS times, and three
# processes behind Caddy that are replaced under load, TURNS times each.
TURNS ?= 10
cluster:
	SVCFS_KILLS=$$(($(TURNS) * 25)) $(GO) test -v -count=1 -timeout 2h -run '^Test(FailoverOfPostgreSQL|RollingUpgrade)$$' ./integration -seed $(SEED)

# Every fuzz target, one after the other, FUZZTIME each, but for the folders in
# FUZZ_SKIP. Only packages that have some are built for it.
fuzz:
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do \
		case " $(FUZZ_SKIP) " in *" $$dir "*) continue;; esac; \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$dir/*_test.go | sort); do \
			echo "$$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$dir; \
		done; \
	done

# Known vulnerabilities that this code reaches; VULNDB names another database.
vulnerabilities:
	@.ci/vulnerabilities

# What is made hangs on the commit alone: the same one gives the same bytes in every folder.
# KEY=FILE, a minisign key, signs the hashes; without it the names of the files say unsigned. Every time in a package is that of the commit.
# VERSION=X is for sources without git: else the programs tell the version, and the packages have theirs.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
VERSION ?=
KEY ?=
dist: require-go
	@test -n "$(SOURCE_DATE_EPOCH)" || { echo "make dist: git tells no commit here: give SOURCE_DATE_EPOCH=SECONDS and VERSION=X" >&2; exit 1; }
	cd packaging && $(GO) run -buildvcs=false . -version "$(VERSION)" -time "$(SOURCE_DATE_EPOCH)" -buildvcs=$(STAMP) -minisign-key "$(KEY)"

# Two builds in different folders, compared byte for byte.
packages:
	cd packaging && $(GO) test -timeout 10m $(TESTFLAGS) ./...

# The manual pages are made from the help texts.
man: build
	rm -rf dist/man
	./bin/svcfs man dist/man
	./bin/svcd man dist/man

# With sudo, which hides a user's Go, what make build left is installed.
install:
	@if test -x bin/svcfs -a -x bin/svcd -a -x bin/svcvault && { test -n "$$SUDO_USER" || ! command -v $(GO) >/dev/null; }; then \
		echo "installing the programs in bin as make build left them"; else $(MAKE) build; fi
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 0755 bin/svcfs bin/svcd bin/svcvault "$(DESTDIR)$(PREFIX)/bin/"
	umask 022 && ./bin/svcfs man "$(DESTDIR)$(PREFIX)/share/man/man1" && ./bin/svcd man "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 0644 cmd/svcvault/svcvault.1 "$(DESTDIR)$(PREFIX)/share/man/man1/"
	install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	for program in svcfs svcd; do \
		./bin/$$program completion bash > "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$program" && \
		./bin/$$program completion zsh > "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$program" && \
		./bin/$$program completion fish > "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$program.fish" || exit 1; \
	done

# Settings, logs and data of users and of a service stay.
uninstall:
	rm -f "$(DESTDIR)$(PREFIX)/bin/svcvault" "$(DESTDIR)$(PREFIX)/share/man/man1/svcvault.1"
	for program in svcfs svcd; do \
		rm -f "$(DESTDIR)$(PREFIX)/bin/$$program" "$(DESTDIR)$(PREFIX)/share/man/man1/$$program.1" "$(DESTDIR)$(PREFIX)/share/man/man1/$$program"-*.1 \
			"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$program" "$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$program" \
			"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$program.fish"; \
	done

clean:
	rm -rf bin dist
