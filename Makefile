# Targets for people and for CI. On Debian and Ubuntu, as root, they install what they need besides a Rust toolchain.

CARGO ?= cargo
# Where Debian has nft, ip and iptables, and where an ordinary user's shell does not look.
export PATH := $(PATH):/usr/sbin:/sbin
# What static and image are made for: amd64 or arm64, gnu or musl.
ARCH ?= $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(shell uname -m)))
LIBC ?= gnu
# The packet tests need a network namespace of their own making: as an ordinary user that takes a user namespace around them.
NAMESPACED := $(if $(filter 0,$(shell id -u)),,unshare --map-root-user --net)

.PHONY: all demo test lint bench static image test-image tools deploy-tools test-deploy renew-deploy package test-package test-reproducible clean

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

## static: the static program of images, packages and releases, in dist/amd64; LIBC=musl makes it smaller, ARCH=arm64 crosses over
static:
	./.ci/static $(ARCH) $(LIBC)

## image: both container images as archives in dist/amd64, as root: with the program alone, and with iptables
image: static
	./.ci/image $(ARCH)
	./.ci/image $(ARCH) iptables

## test-image: the images at work: podman, runc, a pod plugged in by CNI, real packets; as root
test-image: image
	./.ci/image-tests

## package: deb and rpm of the static program, with its systemd unit, in dist/amd64
package: static
	./.ci/package $(ARCH) deb
	./.ci/package $(ARCH) rpm

## test-package: the packages, and the deb on a Debian that boots in private namespaces, from installation to purge; as root
test-package: package
	./.ci/package-tests

## test-reproducible: the static program built again in another folder has the same bytes
test-reproducible: static
	./.ci/reproduce $(ARCH)

## tools: the programs that the tests hold the agent against
tools:
	./.ci/tools

## deploy-tools: what the tests of deploy/ run, into .tools
deploy-tools:
	./.ci/deploy-tools

clean:
	$(CARGO) clean
	rm -rf dist
