internal import CTraversalShims
internal import Glibc

/// What a file descriptor's owner hears from the loop, always on the loop's thread.
package protocol EventHandler: AnyObject {
    /// The descriptor can be read from (or has failed or been hung up: reading tells).
    func readable()
    /// The descriptor can be written to; a pending connect has ended.
    func writable()
    /// The loop has ended: nothing will be told any more, and what belongs to the descriptor is to be let go of.
    func loopEnded()
}

/// One thread that owns sockets, timers and all protocol state (epoll, eventfd, timerfd).
///
/// Work from other threads comes in through `execute`, which wakes the loop at most once however much is
/// queued. Everything else here may be called on the loop's own thread only. Whatever a turn of the loop
/// produces for a socket is written once, at the end of that turn (`flushAtEndOfTurn`).
package final class EventLoop: @unchecked Sendable {
    private struct Inbox {
        var work: [@Sendable () -> Void] = []
        var isWakePending = false
        var isStopping = false
    }

    private final class Registration {
        let handler: any EventHandler
        let generation: UInt32
        var events: UInt32

        init(handler: any EventHandler, generation: UInt32, events: UInt32) {
            self.handler = handler
            self.generation = generation
            self.events = events
        }
    }

    private let epoll: Int32
    private let wakeDescriptor: Int32
    private let timerDescriptor: Int32
    private let inbox = Lock(Inbox())

    // Touched on the loop's thread only.
    private var thread = pthread_t()
    private var registrations: [Int32: Registration] = [:]
    private var generation: UInt32 = 0
    private var timers = TimerQueue()
    private var armedDeadline: ContinuousClock.Instant?
    private var flushes: [() -> Void] = []

    /// The time of this turn of the loop.
    package private(set) var now = ContinuousClock.now
    /// Where sockets are read into: shared by all connections of the loop, since none keeps it.
    package let wireBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 16)
    /// Where TLS decrypts into.
    package let plainBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 * 1024, alignment: 16)
    /// Unpredictable bytes for masking keys and nonces.
    package var random = RandomPool()

    private static let currentKey: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    /// Starts the thread.
    ///
    /// - Throws: `TransportError` (`client.resources`) when the process has no descriptors left.
    package init() throws(TransportError) {
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        wakeDescriptor = eventfd(0, Int32(EFD_NONBLOCK | EFD_CLOEXEC))
        timerDescriptor = timerfd_create(CLOCK_BOOTTIME, Int32(TFD_NONBLOCK | TFD_CLOEXEC))
        guard epoll >= 0, wakeDescriptor >= 0, timerDescriptor >= 0 else {
            let code = errno
            for descriptor in [epoll, wakeDescriptor, timerDescriptor] where descriptor >= 0 {
                close(descriptor)
            }
            throw TransportError(stage: .local, code: .clientResources, evidence: .errno(code))
        }
        control(EPOLL_CTL_ADD, wakeDescriptor, events: EPOLLIN.rawValue, generation: 0)
        control(EPOLL_CTL_ADD, timerDescriptor, events: EPOLLIN.rawValue, generation: 0)
        let pointer = Unmanaged.passRetained(self).toOpaque()
        let result = pthread_create(
            &thread, nil,
            { pointer in
                guard let pointer else { return nil }
                let loop = Unmanaged<EventLoop>.fromOpaque(pointer).takeRetainedValue()
                pthread_setspecific(EventLoop.currentKey, Unmanaged.passUnretained(loop).toOpaque())
                traversal_name_thread("mqtt-loop")
                loop.run()
                return nil
            }, pointer)
        guard result == 0 else {
            Unmanaged<EventLoop>.fromOpaque(pointer).release()
            throw TransportError(stage: .local, code: .clientResources, evidence: .errno(result))
        }
    }

    deinit {
        for descriptor in [epoll, wakeDescriptor, timerDescriptor] where descriptor >= 0 { close(descriptor) }
        wireBuffer.deallocate()
        plainBuffer.deallocate()
    }

    /// Whether the calling thread is the loop's.
    package var isCurrent: Bool {
        pthread_getspecific(EventLoop.currentKey) == Unmanaged.passUnretained(self).toOpaque()
    }

    package func preconditionIsCurrent() {
        precondition(isCurrent, "used off its event loop")
    }

    /// Runs `work` on the loop, in the order of the calls; from any thread.
    package func execute(_ work: @escaping @Sendable () -> Void) {
        let mustWake = inbox.withLock { inbox in
            inbox.work.append(work)
            if inbox.isWakePending { return false }
            inbox.isWakePending = true
            return true
        }
        if mustWake { wake() }
    }

    /// Ends the thread after the work queued so far, and waits for it; descriptors still registered are closed
    /// by their owners' ends. Call it once, never on the loop itself; work queued later is never run.
    package func stopAndJoin() {
        precondition(!isCurrent, "a loop can't wait for itself")
        inbox.withLock { $0.isStopping = true }
        wake()
        pthread_join(thread, nil)
    }

    private func wake() {
        var one: UInt64 = 1
        _ = write(wakeDescriptor, &one, 8)
    }

    // MARK: Descriptors, on the loop's thread

    package func register(_ descriptor: Int32, handler: any EventHandler, writable: Bool = false) {
        preconditionIsCurrent()
        generation &+= 1
        let events = EPOLLIN.rawValue | (writable ? EPOLLOUT.rawValue : 0)
        registrations[descriptor] = Registration(handler: handler, generation: generation, events: events)
        control(EPOLL_CTL_ADD, descriptor, events: events, generation: generation)
    }

    package func setInterest(_ descriptor: Int32, readable: Bool = true, writable: Bool) {
        guard let registration = registrations[descriptor] else { return }
        let events = (readable ? EPOLLIN.rawValue : 0) | (writable ? EPOLLOUT.rawValue : 0)
        guard events != registration.events else { return }
        registration.events = events
        control(EPOLL_CTL_MOD, descriptor, events: events, generation: registration.generation)
    }

    /// Forgets the descriptor; the owner closes it.
    package func unregister(_ descriptor: Int32) {
        guard registrations.removeValue(forKey: descriptor) != nil else { return }
        control(EPOLL_CTL_DEL, descriptor, events: 0, generation: 0)
    }

    private func control(_ operation: Int32, _ descriptor: Int32, events: UInt32, generation: UInt32) {
        var event = epoll_event()
        event.events = events
        event.data.u64 = UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        epoll_ctl(epoll, operation, descriptor, &event)
    }

    // MARK: Timers and flushes, on the loop's thread

    package struct TimerIdentifier: Hashable {
        fileprivate let rawValue: UInt64
    }

    /// Runs `work` on the loop at `deadline`, in boot time: a machine that slept is late, not fooled.
    package func schedule(at deadline: ContinuousClock.Instant, _ work: @escaping () -> Void)
        -> TimerIdentifier
    {
        preconditionIsCurrent()
        return TimerIdentifier(rawValue: timers.insert(at: deadline, work))
    }

    package func cancel(_ timer: TimerIdentifier) {
        timers.remove(timer.rawValue)
    }

    /// Runs `flush` once, after everything else of this turn.
    package func flushAtEndOfTurn(_ flush: @escaping () -> Void) {
        preconditionIsCurrent()
        flushes.append(flush)
    }

    // MARK: The loop

    private func run() {
        var events = [epoll_event](repeating: epoll_event(), count: 128)
        while true {
            armTimer()
            let count = epoll_wait(epoll, &events, Int32(events.count), flushes.isEmpty ? -1 : 0)
            now = ContinuousClock.now
            var mustDrain = false
            // A negative count is EINTR: the armed timer still holds the whole deadline.
            for index in 0..<max(0, Int(count)) {
                let descriptor = Int32(truncatingIfNeeded: events[index].data.u64)
                let generation = UInt32(truncatingIfNeeded: events[index].data.u64 >> 32)
                if descriptor == wakeDescriptor {
                    drainCounter(wakeDescriptor)
                    mustDrain = true
                } else if descriptor == timerDescriptor {
                    drainCounter(timerDescriptor)
                    armedDeadline = nil
                } else {
                    dispatch(descriptor, generation, events[index].events)
                }
            }
            while let work = timers.popDue(now) { work() }
            let isStopping = mustDrain && drainInbox()
            runFlushes()
            if isStopping { return forgetAll() }
        }
    }

    /// Handlers hold the loop and their owners, who hold them: the end of the thread ends that, and with it their
    /// descriptors.
    private func forgetAll() {
        let handlers = registrations.values.map(\.handler)
        registrations = [:]
        for handler in handlers { handler.loopEnded() }
        timers = TimerQueue()
        flushes = []
    }

    private func dispatch(_ descriptor: Int32, _ generation: UInt32, _ events: UInt32) {
        // A descriptor number may have been closed and reused since the kernel reported it.
        guard let registration = registrations[descriptor], registration.generation == generation else {
            return
        }
        let failed = events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0
        if events & EPOLLOUT.rawValue != 0 || (failed && registration.events & EPOLLOUT.rawValue != 0) {
            registration.handler.writable()
        }
        guard registrations[descriptor] === registration else { return }
        if events & EPOLLIN.rawValue != 0 || failed { registration.handler.readable() }
    }

    private func drainInbox() -> Bool {
        var work: [@Sendable () -> Void] = []
        let isStopping = inbox.withLock { inbox in
            swap(&work, &inbox.work)
            inbox.isWakePending = false
            return inbox.isStopping
        }
        for body in work { body() }
        return isStopping
    }

    /// A flush may queue another, but not for ever: who refills as fast as the kernel takes must not keep the
    /// others waiting.
    private func runFlushes() {
        for _ in 0..<16 where !flushes.isEmpty {
            let batch = flushes
            flushes.removeAll(keepingCapacity: true)
            for flush in batch { flush() }
        }
    }

    private func drainCounter(_ descriptor: Int32) {
        var value: UInt64 = 0
        _ = read(descriptor, &value, 8)
    }

    private func armTimer() {
        guard let deadline = timers.nextDeadline() else { return }
        guard armedDeadline.map({ deadline < $0 }) ?? true else { return }
        armedDeadline = deadline
        let (seconds, attoseconds) = ContinuousClock.now.duration(to: deadline).components
        var setting = itimerspec()
        setting.it_value.tv_sec = Int(max(0, seconds))
        // A zero value would disarm the timer: a deadline that has passed fires after a nanosecond.
        setting.it_value.tv_nsec = seconds < 0 ? 1 : max(1, Int(attoseconds / 1_000_000_000))
        timerfd_settime(timerDescriptor, 0, &setting, nil)
    }
}

extension EventLoop {
    private static let pool = Lock<(loops: [EventLoop], next: Int)>(([], 0))

    /// A loop of the process-wide pool: at most as many loops as cores, made when first needed, never stopped.
    package static func shared() throws(TransportError) -> EventLoop {
        let cores = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        return try pool.withLock { pool throws(TransportError) in
            if pool.loops.count < cores {
                let loop = try EventLoop()
                pool.loops.append(loop)
                return loop
            }
            pool.next = (pool.next + 1) % pool.loops.count
            return pool.loops[pool.next]
        }
    }
}
