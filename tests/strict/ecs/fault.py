"""The service's answer if it refuses a call."""


class EcsFault(Exception):
    def __init__(self, code, message, status=400, **members):
        super().__init__(message)
        self.code, self.message, self.status, self.members = code, message, status, members


def invalid(message):
    return EcsFault("InvalidParameterException", message)


def client(message):
    return EcsFault("ClientException", message)
