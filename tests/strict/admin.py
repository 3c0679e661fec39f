"""The API with which a test changes the stand-ins' state and reads the recorded calls."""

import json

from strict.serving import Reply


class Admin:
    name = "admin"

    def __init__(self, world):
        self.world = world

    def answer(self, request, _):
        world = self.world
        asked = (request.method, request.path)
        if asked == ("GET", "/calls"):
            return Reply.json(200, world.calls())
        if asked == ("DELETE", "/calls"):
            world.forget_calls()
            return Reply.json(200, {})
        if asked == ("GET", "/secrets"):
            return Reply.json(200, world.secrets())
        if asked == ("GET", "/state"):
            return Reply.json(200, world.state)
        if asked in (("PUT", "/state"), ("PATCH", "/state")):
            return self.change(request)
        return Reply.json(404, {"message": "GET or DELETE /calls, GET /secrets, GET, PUT or PATCH /state"})

    def change(self, request):
        try:
            state = json.loads(request.body)
            (self.world.replace if request.method == "PUT" else self.world.merge)(state)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return Reply.json(400, {"message": f"{type(error).__name__}: {error}"})
        return Reply.json(200, {})
