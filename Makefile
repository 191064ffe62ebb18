# Targets for people and for CI. On Debian and Ubuntu, as root, they install what they need besides a Rust toolchain.

CARGO ?= cargo
# The packet tests need a network namespace of their own making: as an ordinary user that takes a user namespace around them.
NAMESPACED := $(if $(filter 0,$(shell id -u)),,unshare --map-root-user --net)

.PHONY: all demo test lint bench image tools deploy-tools test-deploy renew-deploy clean

all: lint test

## demo: the whole thing at work in private namespaces, as root or as an ordinary user
demo:
	$(CARGO) run --release --locked -p ip-masq-agent -- demo

## test: all tests, with real kernels, namespaces and packets, and with the chart and the manifests
test: tools
	$(NAMESPACED) $(CARGO) test --workspace --locked --no-fail-fast
	$(MAKE) test-deploy

## test-deploy: the chart and the manifests alone
test-deploy: tools deploy-tools
	$(CARGO) build --locked -p ip-masq-agent
	./.ci/deploy-tests

## renew-deploy: writes anew what the tests of deploy/ expect; look at the difference before you commit it
renew-deploy: tools deploy-tools
	$(CARGO) build --locked -p ip-masq-agent
	./.ci/deploy-tests --renew || ./.ci/deploy-tests

## lint: formatting, clippy and documentation without a single warning
lint:
	$(CARGO) fmt --all -- --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

## bench: the figures of README's table, measured on this machine
bench:
	$(CARGO) build --release --locked -p ip-masq-agent
	$(NAMESPACED) $(CARGO) bench --locked -p ip-masq-agent

## image: a container image; there is none yet
image:
	@echo "make image: there is no Containerfile yet; build the binary with 'cargo build --release'" >&2; exit 1

## tools: the programs that the tests hold the agent against
tools:
	./.ci/tools

## deploy-tools: what the tests of deploy/ run, into .tools
deploy-tools:
	./.ci/deploy-tools

clean:
	$(CARGO) clean
