"""Errors that a user can act on."""


class TrnscopeError(Exception):
    """A user's mistake or a broken environment, told in one message.

    `what` names the thing and what is wrong with it; `hint` says what is allowed or the next step. Commands print
    both and exit with status 2; the Python API raises it.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what if not hint else f"{what}\n  {hint}")
        self.what = what
        self.hint = hint
