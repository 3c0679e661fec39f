"""A clock that a test can advance, and token buckets that follow it."""

import threading
import time


class Clock:
    def __init__(self):
        self.ahead = 0.0

    def now(self):
        return time.time() + self.ahead

    def advance(self, seconds):
        self.ahead += seconds


class Buckets:
    """Token buckets by name (developer guide, "Request throttling")."""

    def __init__(self, clock):
        self.clock = clock
        self.lock = threading.Lock()
        self.levels = {}

    def take(self, name, burst, per_second):
        with self.lock:
            now = self.clock.now()
            level, since = self.levels.get(name, (burst, now))
            level = min(burst, level + (now - since) * per_second)
            taken = level >= 1
            self.levels[name] = (level - 1 if taken else level, now)
            return taken
