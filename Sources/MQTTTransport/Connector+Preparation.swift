// What comes before the first stage.

extension Connector {
    func ask(_ upgrade: @escaping UpgradeRequest.Hook, _ request: UpgradeRequest) {
        begin(.local, deadline: route.deadlines.preparation) { connector in
            connector.fail(
                TransportError(
                    stage: .local, code: .clientHookTimeout,
                    evidence: .text(
                        "the program's upgrade request wasn't ready within \(connector.route.deadlines.preparation)"
                    )))
        }
        let bound = LoopBound(WeakConnector(connector: self), on: loop)
        // A deadline runs: ahead of work that has none.
        state = .preparing(
            Task(priority: .high) {
                do {
                    let answer = try await upgrade(request)
                    bound.execute { $0.connector?.upgradeAnswered(answer) }
                } catch {
                    bound.execute { $0.connector?.upgradeFailed("\(error)") }
                }
            })
    }

    private func upgradeAnswered(_ request: UpgradeRequest) {
        guard case .preparing = state else { return }
        endStage()
        do throws(ProfileError) {
            route = try route.with(request)
        } catch {
            return upgradeFailed(error.description)
        }
        trail = RedirectTrail(from: route)
        prepare()
    }

    private func upgradeFailed(_ reason: String) {
        guard case .preparing = state else { return }
        fail(
            TransportError(
                stage: .local, code: .clientHookFailed,
                evidence: .text(
                    "the program's upgrade request: \(TransportError.Evidence.printable(reason))")))
    }

    /// Has the contexts for the route's TLS, and goes on.
    func prepare() {
        let needed = [route.tls, route.proxy?.tls].compactMap { $0 }
        if needed.allSatisfy({ contexts.madeContext(for: $0) != nil }) { return resolve() }
        let bound = LoopBound(WeakConnector(connector: self), on: loop)
        // Reads files, so it isn't for the loop.
        state = .preparing(
            Task { [contexts] in
                let made = Result { () throws(TransportError) in
                    for options in needed { _ = try contexts.context(for: options) }
                }
                bound.execute { $0.connector?.prepared(made) }
            })
    }

    private func prepared(_ made: Result<Void, TransportError>) {
        guard case .preparing = state else { return }
        switch made {
        case .success: resolve()
        case .failure(let error):
            stage = error.stage
            stageStart = loop.now
            fail(error)
        }
    }

    /// The context for these options, which `prepare` has seen to.
    func context(for options: TLSOptions?) -> TLSContext? {
        options.flatMap { contexts.madeContext(for: $0) }
    }
}

/// Code that hangs keeps no attempt alive.
private struct WeakConnector {
    weak var connector: Connector?
}
