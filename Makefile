# Everything a developer or a user of this repository runs. 'make help' lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Debian packages that the lab and the tests need.
DEBIAN_PACKAGES := debootstrap debian-archive-keyring systemd-container iproute2 util-linux gcc libc6-dev pkg-config libseccomp-dev gpg gpg-agent curl skopeo time dnf rpm createrepo-c dnf-plugins-core buildah podman busybox-static jq chromium shellcheck slirp4netns nftables git zstd
# What 'make grid' needs beside these: for hosts that are virtual machines, and for the lab's C programs on arm64.
GRID_PACKAGES := qemu-system-x86 qemu-system-arm qemu-utils openssh-client e2fsprogs cpio gcc-aarch64-linux-gnu libc6-dev-arm64-cross
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
UPSTREAM ?= lab
# All programs but sealift-preflight, which links Troubleshoot: 700 packages that these four do not need. Where it is there, it must not be old.
DEMO_PROGRAMS := ./cmd/sealift ./cmd/sealift-node ./cmd/sealift-controller ./cmd/sealift-testgrid $(if $(wildcard bin/sealift-preflight),./cmd/sealift-preflight)
# What 'make release' makes; a tag for the true one.
VERSION ?= v0.0.0-dev
# What tests longest comes first: at the end nothing would run beside it.
PACKAGES ?= $$(go list ./testgrid/airgap ./cmd/sealift ./...)
# Tests of this many packages run side by side, since they wait for clusters and clocks for a third of the time.
SIDE_BY_SIDE ?= $(shell expr $$(nproc) + 1)

# Programs and tests have the same flags, so that a package is compiled once, also for clones in different folders.
# Without grpcnotrace, gRPC links web pages, their templates, and with these every method of every type: 26 MB in sealift-node.
# Without -s -w, linking takes twice as long.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -tags=grpcnotrace '-gcflags=all=-dwarf=false' '-ldflags=-s -w'

# On a machine with enough memory, compilers collect garbage less often: that saves a tenth of their time.
BUILD := $(shell awk '/^MemTotal:/ && $$2 > 7*1024*1024 {print "GOGC=400 "}' /proc/meminfo)go build -o bin/

# FIPS=1 links Go's certified module for FIPS 140-3, in the lab's components too (docs/fips.md).
ifeq ($(FIPS),1)
export GOFIPS140 := certified
endif

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the programs: bin/sealift, what nodes get (sealift-node, sealift-preflight, sealift-console), sealift-controller, and the lab (sealift-testgrid); FIPS=1 for FIPS 140-3
	$(BUILD) ./cmd/...

# The versions of the programs in the operator's image.
KUBECTL = $(shell cd deploy/image/programs && go list -m -f '{{.Version}}' k8s.io/kubectl | sed s/^v0/v1/)
HELM = $(shell cd deploy/image/programs && go list -m -f '{{.Version}}' helm.sh/helm/v4)

.PHONY: image
image: build ## make the container images of the server, the test grid and the operator: bin/sealift-*image.tar
	go run ./deploy/image -binary bin/sealift -node bin/sealift-node -out bin/sealift-image.tar
	go run ./deploy/image -binary bin/sealift -node bin/sealift-node -testgrid bin/sealift-testgrid -out bin/sealift-testgrid-image.tar
	go -C deploy/image/programs build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$(KUBECTL)" -o $(CURDIR)/bin/kubectl ./kubectl
	go -C deploy/image/programs build -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$(HELM)" -o $(CURDIR)/bin/helm helm.sh/helm/v4/cmd/helm
	go run ./deploy/image -operator bin/sealift-controller -program kubectl=bin/kubectl -program helm=bin/helm -out bin/sealift-operator-image.tar

.PHONY: release
release: ## make the files of a release in dist/ (VERSION=v1.2.3; PLATFORMS="linux/amd64" for one, IMAGES=no for no images)
	deploy/release/release.sh $(VERSION)

.PHONY: release-dry-run
release-dry-run: ## make a release, and try its packages on a bare Debian without a network; needs root
	deploy/release/dryrun.sh $(VERSION)

.PHONY: formats
formats: ## write the files of all formats for a release that tests read for ever (RELEASE=v0.2)
	SEALIFT_WRITE_FORMATS=$(RELEASE) go test -count=1 -run 'OfReleasesAreRead$$' $$(git grep -l 'released\.Test(' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's,^,./,')

.PHONY: deps
deps: ## install the Debian packages that the lab and the tests need
	@missing=$$(for p in $(DEBIAN_PACKAGES); do dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || echo $$p; done); \
	if [ -n "$$missing" ]; then apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; fi

.PHONY: demo
demo: deps ## build, bundle and install a cluster on a host without a route out (UPSTREAM=internet for the true upstreams, auto for those that answer; FULL=1 for the whole catalogue)
	@FULL=$(FULL) testgrid/demo/demo.sh expect
	$(BUILD) $(DEMO_PROGRAMS)
	UPSTREAM=$(UPSTREAM) FULL=$(FULL) testgrid/demo/demo.sh up

.PHONY: demo-clean
demo-clean: ## remove all that the demo made
	go build -o bin/ ./cmd/sealift-testgrid
	testgrid/demo/demo.sh clean

.PHONY: test
test: build deps ## all tests, with real registries, hosts and clusters; needs root
	go vet $(PACKAGES)
	bin/sealift-testgrid lab build
	go run ./internal/testing/verdict -vet=off -p $(SIDE_BY_SIDE) -timeout 60m $(PACKAGES)

.PHONY: unit
unit: ## the tests that need neither root nor the lab: on any machine with Go
	go run ./internal/testing/verdict -short -p $(SIDE_BY_SIDE) -parallel 6 $(PACKAGES)

# Race detection needs a C compiler, and takes memory: fewer packages run side by side.
.PHONY: race
race: export CGO_ENABLED := 1
race: ## the tests of 'make unit' with the race detector; needs gcc
	go test -race -short -p $(shell nproc) -timeout 60m $(PACKAGES)

# The programs that these tests start have no race detector: they run on hosts without a C library of this machine.
.PHONY: race-lab
race-lab: build deps ## the tests of 'make test' with the race detector: API servers, registries and hosts; needs gcc, and hours
	bin/sealift-testgrid lab build
	CGO_ENABLED=1 go test -race -p $(SIDE_BY_SIDE) -timeout 120m $(PACKAGES)

.PHONY: grid
grid: DEBIAN_PACKAGES += $(GRID_PACKAGES)
grid: build deps ## what takes too long for every commit: all releases and systems, kills at every step, a bare machine (GRID=PATTERN for some)
	bin/sealift-testgrid lab build
	testgrid/grid.sh '$(GRID)'
	$(if $(GRID),,testgrid/demo/cold.sh)

.PHONY: cold
cold: deps ## both README commands on a bare Debian 12 with Go and empty caches: about an hour
	testgrid/demo/cold.sh

.PHONY: soak
soak: build deps ## all tests five times in a row on a busy machine: hours
	bin/sealift-testgrid lab build
	SIDE_BY_SIDE=$(SIDE_BY_SIDE) testgrid/soak.sh

.PHONY: lint
lint: ## static checks, and known vulnerabilities in what the programs call; the floors of the house are a test
	go run $(GOLANGCI_LINT) run
	testgrid/vulncheck.sh

.PHONY: bench
bench: build deps ## measure against the peers, side by side
	go run ./internal/testing/bench -sealift bin/sealift

.PHONY: fuzz
fuzz: ## fuzz every parser for a minute each, and print how often it was executed
	testgrid/fuzz.sh
