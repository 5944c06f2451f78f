class RayError(Exception):
    pass


class GetTimeoutError(RayError):
    pass
