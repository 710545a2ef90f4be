# The Swift toolchain (6.2 or later) has to be there; everything else is installed from Debian.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint obligations format sample autobahn autobahn-quick interop traversal soak crashes docs cycles

build_packages := libssl-dev zlib1g-dev pkg-config
broker_packages := mosquitto mosquitto-clients
proxy_packages := squid tinyproxy dante-server krb5-kdc krb5-admin-server krb5-user
swift_sources := Package.swift Sources Tests Examples
# All tests share as many threads as there are cores, and two event loops. Those that only compute would hold up
# those that keep time, and so would all the rest hold up those that watch a broker for a keep-alive of a second.
# Those of programs are apart since Foundation's Process waits by select(2), which can't see a descriptor above 1023:
# all tests at once have thousands open.
socket_tests := '^(MQTTTransportTests|MQTTTraversalTests|MQTTLoopbackTests)\.'
program_tests := '^(ExamplesTests|MQTTProbeTests|DurabilityTests)\.'
broker_tests := '^ScenarioTests\.'
# Started all at once, a test with a deadline of 10 s might be given a thread too late to meet it.
few_at_once := SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=16
computing_tests := '^(MQTTCoreTests|WebSocketCoreTests|SoakTests)\.'
strict := -Xswiftc -warnings-as-errors -Xcc -Werror

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Install what is missing, build, and run the demo on a loopback broker
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift run mqtt-demo

test: ## Install what is missing, then lint, build without warnings, and run all tests
	@.ci/check-swift
	@.ci/step "Debian packages to build" .ci/install $(build_packages)
	@.ci/step "Debian packages to test against" .ci/install $(broker_packages) \
		|| { [ $$? -eq 3 ] && echo "SKIPPED without root and mosquitto: the scenarios against mosquitto"; }
	@.ci/step "proxies to test against" .ci/install $(proxy_packages) \
		|| { [ $$? -eq 3 ] && echo "SKIPPED without root and these: the scenarios through squid, tinyproxy, dante, and with Kerberos"; }
	@.ci/step lint $(MAKE) --no-print-directory lint
	@.ci/step obligations $(MAKE) --no-print-directory obligations
	@.ci/step build swift build --build-tests $(strict)
	@MQTT_SIMULATIONS=5000 .ci/step "tests without sockets" swift test --skip-build $(strict) --filter $(computing_tests)
	@$(few_at_once) .ci/step "tests with sockets" swift test --skip-build $(strict) --filter $(socket_tests)
	@.ci/step "tests of programs" swift test --skip-build $(strict) --filter $(program_tests)
	@.ci/step "tests with brokers" swift test --skip-build $(strict) --filter $(broker_tests)
	@.ci/step "Autobahn, sections 1 to 10" .ci/autobahn --quick .build/debug/websocket-echo \
		|| { [ $$? -eq 3 ] && echo "SKIPPED: the Autobahn test suite, which needs Python 2.7 and PyPI"; }
	@.ci/step "sample package" $(MAKE) --no-print-directory sample

lint: ## Check the format of the Swift sources
	swift format lint --strict --recursive --parallel $(swift_sources)

obligations: ## Hold what MQTT asks of a client against the tests that name it
	@Tests/Conformance/Obligations/check-obligations

format: ## Format the Swift sources in place
	swift format format --in-place --recursive --parallel $(swift_sources)

sample: ## Build and run a package of its own that only imports our products
	swift run --configuration release --package-path Tests/SamplePackage sample
	swift run --configuration release --package-path Tests/SamplePackage websocket-sample

autobahn: ## Run all of the Autobahn test suite against our WebSocket: 9 minutes on 2 cores
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift build --configuration release --product websocket-echo
	.ci/autobahn .build/release/websocket-echo

autobahn-quick: ## Run its sections 1 to 10, as `make test` does
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift build --product websocket-echo
	.ci/autobahn --quick .build/debug/websocket-echo

interop: ## Run the scenarios against RabbitMQ, ejabberd and amqtt too, installing them
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift build --build-tests $(strict)
	.ci/interop

traversal: ## Run the client through real proxies, TLS ends and firewalls, installing them: 2 minutes
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift build --build-tests $(strict)
	.ci/traversal

soak: ## Run 200 clients through broken connections and broker restarts for DURATION=120 seconds, faults by SEED=
	@.ci/check-swift
	@.ci/install $(build_packages)
	@.ci/install $(broker_packages)
	swift build --product mqtt-soak $(strict)
	.build/debug/mqtt-soak --duration $(or $(DURATION),120) $(if $(SEED),--seed $(SEED))

crashes: ## Kill a client with a session store 500 times and see that nothing is lost
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift build --build-tests $(strict)
	MQTT_CRASHES=500 swift test --skip-build $(strict) --filter '^DurabilityTests\.'

cycles: ## Connect and disconnect CYCLES=10000 times, feed a sleeping consumer, and see that nothing grows: 3 minutes
	@.ci/check-swift
	@.ci/install $(build_packages)
	swift build --build-tests $(strict)
	MQTT_CYCLES=$(or $(CYCLES),10000) swift test --skip-build $(strict) --filter '^MQTTLoopbackTests\.CycleTests'

docs: ## Build the documentation of the libraries; a warning fails
	swift package dump-symbol-graph --minimum-access-level public >/dev/null
	rm -rf .build/docs && mkdir -p .build/docs/{MQTTTraversal,WebSocketCore}
	cp .build/*/symbolgraph/MQTT{Traversal,Transport,Core}*.json .build/docs/MQTTTraversal
	cp .build/*/symbolgraph/WebSocketCore*.json .build/docs/WebSocketCore
	for library in MQTTTraversal WebSocketCore; do \
		docc convert Sources/$$library/$$library.docc --additional-symbol-graph-dir .build/docs/$$library \
			--fallback-display-name $$library --fallback-bundle-identifier swift-mqtt-traversal.$$library \
			--output-path .build/docs/$$library.doccarchive --warnings-as-errors; \
	done
