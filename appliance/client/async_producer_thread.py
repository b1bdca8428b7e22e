"""The thread of an asynchronous producer, behind its queue."""

from __future__ import annotations

import threading
import time

from appliance.client.event_queue import EventQueue
from appliance.client.outcome import ProducerClosed, QueueFull, Records, failure
from appliance.client.producer_hooks import EventHandler
from appliance.client.producer_pipeline import WAIT_S, Pipe, closed
from appliance.process import event_log

log = event_log.named("client")

IDLE_S = 60.0  # how long to sleep while something else wakes the thread


class Worker:
    """The thread of an asynchronous producer, with its queue. Only this thread uses what comes
    after the queue."""

    def __init__(self, pipe: Pipe, handler: EventHandler) -> None:
        self.pipe, self.config, self.handler = pipe, pipe.config, handler
        self.callbacks = pipe.callbacks
        self.queue = EventQueue(pipe.config)
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    # any thread

    def put(self, records: Records) -> None:
        chosen = self.callbacks.before_enqueue(records)
        added = 0
        try:
            for piece, is_added in self.queue.put(chosen):
                self.callbacks.after_enqueue(piece, is_added)
                added += len(piece) if is_added else 0
        except ProducerClosed:
            self.callbacks.after_enqueue(chosen.cut(added, len(chosen)), False)
            raise
        if added < len(chosen):
            raise QueueFull(
                f"{len(chosen) - added} of {len(chosen)} records got no space within "
                f"{self.config.queue_enqueue_timeout} ms: queue_size is {self.config.queue_size}",
                added,
            )

    def flush(self) -> None:
        mark = self.queue.put_mark()
        while not mark.wait(WAIT_S):
            if not self._thread.is_alive():
                raise ProducerClosed("this producer was closed")

    def close(self) -> None:
        self.pipe.closes_at = time.monotonic() + self.config.close_timeout / 1000
        self.queue.close()
        self._thread.join()
        self.queue.release()

    # the thread

    def _run(self) -> None:
        try:
            self._serve()
        finally:  # also if a hook ended the thread: nobody is left who would send what waits
            self.queue.close()
            self.pipe.sender.abandon(closed())
            while self.queue.has_items:
                records, mark = self.queue.take()
                self.pipe.fail(records, closed())
                if mark:
                    mark.set()

    def _serve(self) -> None:
        while not self.queue.is_closed:
            self._turn()
        last = self._last_of_all()
        while len(self.queue) and time.monotonic() < self.pipe.closes_at:
            self._turn()
        if last:
            self._handle(last)
        self.pipe.drain()

    def _turn(self) -> None:
        """Sends a portion if one is due; otherwise serves the brokers for a while."""
        due_in_s = self.queue.due_in_s()
        if due_in_s > 0:
            self.pipe.pump(min(due_in_s, IDLE_S), self.queue.wake)
            self.queue.quiet()
            return
        records, mark = self.queue.take()
        if records:
            self._handle(records)
        if mark:
            self.pipe.drain()
            mark.set()

    def _handle(self, records: list[Records]) -> None:
        try:
            chosen = self.callbacks.after_dequeue(records)
        except Exception as error:
            log.exception("after_dequeue failed", records=sum(map(len, records)))
            self.pipe.fail(records, failure("after_dequeue", error))
            return
        delivery = Counted(self.pipe)
        try:
            self.handler.handle(chosen, delivery)
        except Exception as error:
            log.exception("the event handler failed")
            rest = [each for each in chosen if id(each) not in delivery.sent]
            self.pipe.fail(rest, failure(type(self.handler).__name__, error))

    def _last_of_all(self) -> list[Records]:
        try:
            return self.callbacks.on_close()
        except Exception:
            log.exception("on_close failed")
            return []


class Counted:
    """Remembers what an event handler sent before it failed."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self.sent: set[int] = set()

    def send(self, records: list[Records]) -> None:
        self.sent |= {id(each) for each in records}
        self._pipe.send(records)
