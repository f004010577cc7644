# make help lists the targets.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# One place says which linter this code is clean under; CI and people get the same.
GOLANGCI_LINT := 2.15.0

# How long make fuzz spends on each target.
FUZZTIME ?= 30s

# How long make chaos goes on. CHAOSSEED repeats the choices of another run.
CHAOSTIME ?= 3m

.DEFAULT_GOAL := help
.PHONY: help run build test lint fuzz chaos clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build, then start on 127.0.0.1:6380 with state in this process
	@cat scripts/try.txt
	@exec bin/rlproxy --bind 127.0.0.1 --port 6380

build: ## build bin/rlproxy, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.release=$(VERSION)' -o bin/rlproxy ./cmd/rlproxy

test: ## run all tests; installs redis-server and gcc if they are missing
	scripts/need redis-server gcc
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not as gofmt has it:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	scripts/check-deploy
	CGO_ENABLED=1 $(GO) test -race -timeout 15m ./...

lint: ## run golangci-lint; builds it if it is missing, which takes minutes
	scripts/lint $(GOLANGCI_LINT)

fuzz: ## run every fuzz target for FUZZTIME, 30s unless said
	scripts/fuzz $(FUZZTIME)

chaos: ## kill, stop and move nodes under load for CHAOSTIME, 3m unless said
	scripts/need redis-server gcc
	CHAOSTIME=$(CHAOSTIME) $(GO) test -count 1 -timeout 0 -v -run TestChaos ./tests/chaos

clean: ## remove what was built
	rm -rf bin

.PHONY: bench bench-quick bench-hot

bench: build ## measure against direct EVALSHA; writes docs/benchmarks.md, takes half an hour
	scripts/need redis-server
	$(GO) run ./tests/bench -docs docs

bench-quick: build ## the same table in a minute, for use while working
	scripts/need redis-server
	$(GO) run ./tests/bench -quick

bench-hot: build ## the hot-key figures: one hot key, one denied key, a split key
	scripts/need redis-server
	$(GO) run ./tests/bench -only 'one (hot|denied) key' -growth=false

.PHONY: instructions
instructions: build ## count a node's instructions for a decision, under valgrind, and compare with the baseline
	scripts/need redis-server valgrind
	$(GO) run ./tests/bench -instructions tests/bench/instructions.txt

.PHONY: test-clients
test-clients: build ## run real clients and the examples; installs them, writes docs/clients.md
	scripts/install-clients.sh
	$(GO) run ./tests/clients

.PHONY: soak
# How many requests make soak asks.
SOAK_REQUESTS ?= 1000000

soak: ## hold split keys to their limits for SOAK_REQUESTS requests, a million unless said: 6 minutes
	scripts/need redis-server
	SOAK_REQUESTS=$(SOAK_REQUESTS) $(GO) test -count 1 -timeout 0 -v -run '^TestSplitSum$$' ./tests
