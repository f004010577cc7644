# make help lists the targets.

GO      ?= go

# Every clone of the repository can use what another one has built, because no path is part of it.
# The tag leaves out a part of gRPC that nothing here uses, and that makes the binary twice as large.
export GOFLAGS := -trimpath -tags=grpcnotrace $(GOFLAGS)

# The version of golangci-lint that CI and people use.
GOLANGCI_LINT := 2.15.0

# The version of nfpm, which makes packages. It is run, and no module of this project requires it.
NFPM := 2.43.0

# The version of kubernetes-validate, which has the schemas of Kubernetes.
KUBERNETES_VALIDATE := 1.37.0

# How long make fuzz runs each target.
FUZZTIME ?= 30s

# How long make chaos runs. CHAOSSEED repeats the choices of another run.
CHAOSTIME ?= 3m

# How many requests make soak sends to split keys, and at random to each engine. RACE=-race
# adds the race detector.
SOAK_REQUESTS ?= 1000000
RACE ?=

# How many random steps make model makes in each model.
MODEL_STEPS ?= 10000000

.DEFAULT_GOAL := help

##@ To use rlproxy

.PHONY: run
run: build ## build, then start on 127.0.0.1:6380 with the state in this process
	@cat scripts/try.txt
	@exec bin/rlproxy --bind 127.0.0.1 --port 6380 --http-port 6381 --http-check yes

.PHONY: build
build: ## build bin/rlproxy, a static binary
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o bin/rlproxy ./cmd/rlproxy

.PHONY: dist
dist: ## build what can be installed into dist/: static binaries, Debian packages and checksums
	scripts/dist $(NFPM)

.PHONY: bench-quick
bench-quick: build ## measure on this machine, against direct EVALSHA, in a minute
	scripts/need redis-server
	$(GO) run ./tests/bench -quick

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { print (n++ ? "\n" : "") substr($$0, 5) ":" } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist

##@ To change rlproxy; tests/README.md says what each level of tests holds

# The longest package comes first. Tests wait as often as they work, so there is one more at a time
# than there are cores. go test need not vet what go vet has checked. GORACE is there because a program
# with the race detector sleeps for a second before it exits.
.PHONY: test
test: ## run all tests, in minutes; installs redis-server, gcc and curl if they are missing
	scripts/need redis-server gcc curl
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; } >&2
	$(GO) vet ./...
	GORACE="atexit_sleep_ms=0 $$GORACE" CGO_ENABLED=1 $(GO) test -vet=off -race -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) -parallel 4 -timeout 15m ./tests ./...

.PHONY: lint
lint: lint-lua ## run golangci-lint and luacheck; builds golangci-lint if it is missing
	scripts/lint $(GOLANGCI_LINT)

.PHONY: check-deploy
check-deploy: ## check the manifests of deploy/ against the schemas of Kubernetes, which it installs
	scripts/check-deploy $(KUBERNETES_VALIDATE)

.PHONY: check-dist
check-dist: ## build the package of this machine twice, compare, and install it in a copy of the root; needs Debian
	scripts/check-dist $(NFPM)

.PHONY: check-alerts
check-alerts: ## check deploy/alerts.yaml, what fires it, and that no panel of the dashboard is empty; installs Prometheus
	scripts/need promtool redis-server
	promtool check rules deploy/alerts.yaml
	promtool test rules deploy/alerts_test.yaml
	$(GO) test -count 1 ./tests -run '^TestDashboardHasNoEmptyPanel$$'

.PHONY: lint-lua
lint-lua: ## run luacheck on the Lua that nodes run
	scripts/need luacheck
	scripts/lint-lua

.PHONY: soak
soak: ## run the long forms of the random tests: SOAK_REQUESTS=1000000 takes 12 minutes
	scripts/need redis-server
	SOAK_REQUESTS=$(SOAK_REQUESTS) $(GO) test $(RACE) -count 1 -timeout 0 -v ./tests \
		-run '^Test(SplitKeysHoldTheirLimitsUnderLoad|ManyProxiesHoldOneLimit|BrokenConnectionsChargeNothingTwice|OnceIsChargedOnceWhateverIsLost|ReservationsHoldTheirLimits|MultiKeyRequestsHoldEveryLimit|SlotsAreNeverOversold|WorkersShareSlots|ManyLeasesOfManyConnectionsAreRenewed|LongPipelineDoesNotStarveOthers|DearRequestsDelayNoOthers|FloodOfStrangersIsRefusedInLittleMemory|AdvancesHoldTheirLimitsUnderFaults|AdvancesDenyOnlyWithoutRoom)$$'
	SOAK_REQUESTS=$(SOAK_REQUESTS) $(GO) test $(RACE) -count 1 -timeout 0 -v ./engine/redis ./engine/memory \
		-run '^Test(Conformance|InstantsOfANodesClock$$|Cluster$$|DamagedRecordsAreErrorsOfTheirKeys$$|SplitKeysAreDecidedAsIfTheyWereNotSplit$$)'
	LUA_STEPS=20000 LUA_HISTORIES=12 $(GO) test $(RACE) -count 1 -timeout 0 -v ./lua \
		-run '^Test(SplitKeysFollowTheSpecification|PathsAgreeOverRandomHistories|PathsOfHoldsAgreeOverRandomHistories)$$'

# What depends on the server: the library, conformance, clusters and sentinels, and what is forwarded.
.PHONY: test-servers
test-servers: ## run the tests that depend on the server on Redis 8 and Valkey 8 and 9; downloads them
	scripts/need redis-server
	scripts/install-servers.sh
	@set -e; for folder in tests/.cache/servers/*/; do \
		$$folder/redis-server --version; \
		PATH="$(CURDIR)/$$folder:$$PATH" $(GO) test -count 1 -timeout 10m ./lua ./engine/backend ./engine/redis ./engine/forward ./policy/store \
			-run 'Conformance|Cluster|Sentinel|Librar|Script|Functions|Version|Replica|Specification|Judged|Connection|Redirects|ByteForByte|Record|Messages'; \
	done

.PHONY: memory
memory: ## check bounds of memory and allocations, which the race detector hides, in two minutes
	scripts/need redis-server
	$(GO) test -count 1 -timeout 10m -v ./tests \
		-run 'TakesLittleMemory$$|TakeLittleMemory$$|^Test(NamesOfClientsAreShort|TransactionQueuesAreBoundedTogether|RepliesOfLocalCommandsAreWrittenAsTheyGrow|MergedRepliesAreBounded|LargeArgumentsAreBoundedAndTheirMemoryReturned|WaitingRequestsAreCounted|LargeReplyPassesInLittleMemory|HTTPNeverDelaysDecisions)$$'
	$(GO) test -count 1 ./commands ./engine/memory -run 'Alloc|Memory'

.PHONY: model
model: ## run the models of holds, split keys and advances, MODEL_STEPS=10000000 random steps of each
	MODEL_STEPS=$(MODEL_STEPS) $(GO) test -count 1 -timeout 0 -v -run '^Test(TheModelAgrees|ChaosBreaksNoLimit|NoLimitIsExceeded)$$' \
		./engine/hold ./shard/lease/model ./engine/advance/model

.PHONY: chaos
chaos: ## kill, stop and move nodes under load for CHAOSTIME=3m
	scripts/need redis-server gcc
	CHAOSTIME=$(CHAOSTIME) $(GO) test -count 1 -timeout 0 -v -run TestChaos ./tests/chaos

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME=30s
	scripts/fuzz $(FUZZTIME)

.PHONY: accuracy
accuracy: ## measure what limiters admit and deny; builds peers, writes docs/accuracy.md
	scripts/need redis-server gcc
	scripts/install-peers.sh
	$(GO) test -count 1 -timeout 20m -parallel 4 -v -run '^TestAccuracy$$' ./tests/accuracy -docs $(CURDIR)/docs

.PHONY: walk
walk: ## list the functions that one RL.SLIDE passes; fails if there are too many
	scripts/need redis-server
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		GOCOVERDIR=$$dir $(GO) run -cover -covermode=atomic -coverpkg=./... ./tests/walk

.PHONY: test-page
test-page: build ## try the page in a real Chromium, which it installs if it is missing
	scripts/need chromium redis-server gcc
	cd tests/page && $(GO) vet . && $(GO) test -count 1 -parallel 4 -timeout 10m .

.PHONY: pictures
pictures: build ## take the pictures of docs/page.md, from proxies that have been under load for minutes
	scripts/need chromium redis-server
	cd tests/page && $(GO) test -count 1 -timeout 15m -run TestPictures . -pictures $(CURDIR)/docs -loaded 4m

.PHONY: recording
recording: ## record what a terminal shows; writes docs/terminal.svg, the README's moving picture
	scripts/need redis-server curl
	$(GO) test -count 1 ./tests/recording -update

.PHONY: test-clients
test-clients: build ## run real clients and the examples; installs them, writes docs/clients.md
	scripts/install-clients.sh
	$(GO) run ./tests/clients

.PHONY: instructions
instructions: build ## count a node's instructions per decision under valgrind; compare with the baseline
	scripts/need redis-server valgrind
	$(GO) run ./tests/instructions

.PHONY: bench
bench: build ## measure against direct EVALSHA; writes docs/benchmarks.md, takes half an hour
	scripts/need redis-server
	$(GO) run ./tests/bench -docs docs

.PHONY: bench-peers
bench-peers: build ## measure beside other rate limiters, which it builds first; writes docs/peers.md, README's table
	scripts/need redis-server
	scripts/install-peers.sh
	$(GO) run ./tests/peers/bench -docs docs
	$(GO) test -count 1 ./tests -run '^TestReadmeHasTheFiguresOfPeers$$' -update

.PHONY: bench-hot
bench-hot: build ## measure hot keys only: one hot key, one denied key, a split key
	scripts/need redis-server
	$(GO) run ./tests/bench -only '^(Decisions|Split keys)/.*one (hot|denied) key'
