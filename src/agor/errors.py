"""The whole error tree. It imports nothing of agor, so every layer can raise and catch from it.

    AgorError
    ├── BadInput                 somebody gave us something we cannot use
    │   ├── BadScript
    │   ├── BadConfig            a setting that does not exist, or a value it cannot have
    │   └── UnknownUser          no such Unix user on this machine
    ├── SocketUnusable           a socket path or descriptor that cannot be served or reached
    │   └── SocketInUse
    ├── AgentFailed              the agent itself gave up
    │   ├── AgentMissing         … its program is not installed here
    │   ├── AgentEnded           … its program ended in the middle of a turn
    │   ├── NoTranscript         … it keeps no record of that conversation here
    │   └── ProviderFailed       … who runs the model could not, or would not, answer
    │       ├── BadApiKey        … the key is not taken
    │       ├── RateLimited      … too much at once
    │       ├── QuotaExhausted   … nothing is left of the account
    │       ├── ProviderOverloaded … it is too busy
    │       ├── ContextFull      … the conversation is longer than the model can hold
    │       └── NoSuchModel      … there is no model of that name
    ├── InstallFailed            an agent's program could not be installed
    ├── EnvironmentFailed        an environment could not do what it was asked
    │   ├── NoSuchFile
    │   ├── CommandTimedOut
    │   └── EnvironmentEnded     … because it was terminated
    ├── PoolError                no executor can be had
    │   ├── PoolExhausted        … too many wait already
    │   ├── ResourcesExhausted   … the machine has run out of files, processes, memory or disk
    │   ├── PoolClosed           … the pool is shutting down
    │   ├── ImpersonationRefused … we may not, or cannot, run as that Unix user
    │   ├── LauncherFailed       … the process that starts them does not come up
    │   │   └── LauncherLost     … or it died or hung over a start; another one is tried
    │   └── ExecutorFailed       … it did not start, or it died
    ├── RequestRefused           the daemon cannot do what it was asked
    │   ├── Unauthenticated      … nobody knows who asks
    │   ├── Forbidden            … not from there, or not this person
    │   ├── NotFound             … there is no such thing
    │   ├── Conflict             … it does not fit the present state
    │   ├── TooLarge             … too much at once
    │   ├── TooManyAttempts      … too often the wrong password
    │   └── Unprocessable        … it is not what this route takes
    │       └── WorkspaceUnreachable … a folder that its Unix user cannot work in
    ├── GitFailed                git, or the disk below it, could not do what was asked
    ├── StoreError               the database
    │   ├── StoreUnavailable     … cannot be written or read now
    │   ├── StoreDamaged         … has lost what was asked for; asking again does not help
    │   └── StoreUnusable        … is of another kind or version than this program can use
    ├── MasterKeyUnusable        credentials cannot be sealed or opened
    ├── DaemonError              the daemon as a process
    │   ├── DaemonRunning        … there is one already
    │   └── DaemonNotRunning     … there is none, or it does not answer
    ├── Disconnected             the other end of a connection is gone
    │   ├── BrokenFrame          … in the middle of a line
    │   └── PeerStalled          … cut off by us: it stopped reading
    └── RpcError                 a request was answered with an error, or could not be asked
        ├── ParseError  InvalidRequest  MethodNotFound  InvalidParams  InternalError
        ├── HandlerFailed  Overloaded  TokenRefused  UnknownTask
        ├── PermissionDenied  TimedOut  Cancelled
        └── InvalidResult        the answer does not have the promised form

Callers branch on the type or on `code`, never on the message. A message says what happened and
why; `hint` says what the reader can do about it.
"""

from __future__ import annotations

from typing import Self


class AgorError(Exception):
    """Anything that goes wrong in agor and that a person may read."""

    code = "error"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def again(self) -> Self:
        """Copy it, to be raised in another place: an exception carries one traceback only."""
        return type(self)(self.message, hint=self.hint)


class BadInput(AgorError):
    """Something we were given cannot be used as it is."""

    code = "bad_input"


class BadScript(BadInput):
    """A script for the scripted agent or model has a step that means nothing."""

    code = "bad_script"


class SocketUnusable(AgorError):
    """A socket path or an inherited descriptor cannot be served or reached."""

    code = "socket_unusable"


class SocketInUse(SocketUnusable):
    """Another living process already serves this socket."""

    code = "socket_in_use"


class AgentFailed(AgorError):
    """The agent gave up on its task."""

    code = "agent_failed"


class AgentMissing(AgentFailed):
    """The agent's program is not installed where it should run."""

    code = "agent_missing"


class AgentEnded(AgentFailed):
    """The agent's program ended in the middle of a turn."""

    code = "agent_ended"


class NoTranscript(AgentFailed):
    """The agent has no record of this conversation here."""

    code = "no_transcript"


class ProviderFailed(AgentFailed):
    """Who runs the model could not, or would not, answer."""

    code = "provider_failed"


class BadApiKey(ProviderFailed):
    """The provider does not take the key."""

    code = "bad_api_key"


class RateLimited(ProviderFailed):
    """The provider was asked for too much at once."""

    code = "rate_limited"


class QuotaExhausted(ProviderFailed):
    """Nothing is left of what the account may use."""

    code = "quota_exhausted"


class ProviderOverloaded(ProviderFailed):
    """The provider is too busy now."""

    code = "provider_overloaded"


class ContextFull(ProviderFailed):
    """The conversation is longer than the model can hold."""

    code = "context_full"


class NoSuchModel(ProviderFailed):
    """The provider has no model of this name, or not for this key."""

    code = "no_such_model"


class BadConfig(BadInput):
    """A setting does not exist, or cannot have this value."""

    code = "bad_config"


class UnknownUser(BadInput):
    """There is no Unix user of this name on this machine."""

    code = "unknown_user"


class InstallFailed(AgorError):
    """An agent's program could not be installed; one that was there is still in use."""

    code = "install_failed"


class EnvironmentFailed(AgorError):
    """An environment could not do what it was asked."""

    code = "environment_failed"


class NoSuchFile(EnvironmentFailed):
    """Nothing is at this path of the environment."""

    code = "no_such_file"


class CommandTimedOut(EnvironmentFailed):
    """A command did not end in its time, and was ended."""

    code = "command_timed_out"


class EnvironmentEnded(EnvironmentFailed):
    """The environment was terminated and takes nothing any more."""

    code = "environment_ended"


class PoolError(AgorError):
    """No executor can be had."""

    code = "pool_error"


class PoolExhausted(PoolError):
    """Every executor is in use, and too many wait for one already."""

    code = "pool_exhausted"


class ResourcesExhausted(PoolError):
    """The machine has run out of files, processes, memory or disk space for now."""

    code = "resources_exhausted"


class PoolClosed(PoolError):
    """The pool is shutting down."""

    code = "pool_closed"


class ImpersonationRefused(PoolError):
    """An executor was to run as a Unix user that we may not or cannot become."""

    code = "impersonation_refused"


class LauncherFailed(PoolError):
    """The process that starts executors for a Unix user does not come up."""

    code = "launcher_failed"


class LauncherLost(LauncherFailed):
    """The launcher died or hung before an executor was started."""

    code = "launcher_lost"


class ExecutorFailed(PoolError):
    """An executor did not start, or it died."""

    code = "executor_failed"


class RequestRefused(AgorError):
    """The daemon cannot do what it was asked."""

    code = "request_refused"


class Unauthenticated(RequestRefused):
    """The request carries no token, or one that is not known."""

    code = "unauthenticated"


class Forbidden(RequestRefused):
    """Whoever asks may not, or may not from there."""

    code = "forbidden"


class NotFound(RequestRefused):
    """There is no such thing, or not for this person."""

    code = "not_found"


class Conflict(RequestRefused):
    """It does not fit the present state."""

    code = "conflict"


class TooLarge(RequestRefused):
    """The request is larger than the daemon takes."""

    code = "too_large"


class TooManyAttempts(RequestRefused):
    """Somebody tried to sign in too often; `retry_after` is in seconds."""

    code = "too_many_attempts"

    def __init__(self, message: str, *, hint: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after

    def again(self) -> Self:
        """Copy it, with the time to wait."""
        return type(self)(self.message, hint=self.hint, retry_after=self.retry_after)


class Unprocessable(RequestRefused):
    """The request is not what this route takes; the message names the field."""

    code = "unprocessable"


class WorkspaceUnreachable(Unprocessable):
    """The Unix user that a session runs as cannot work in its folder."""

    code = "workspace_unreachable"


class GitFailed(AgorError):
    """Git, or the disk below it, could not do what was asked. Nothing was lost."""

    code = "git_failed"


class StoreError(AgorError):
    """Something is wrong with the database."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The database cannot be written or read now; what was acknowledged is safe."""

    code = "store_unavailable"


class StoreDamaged(StoreError):
    """A part of the database is damaged; requests that do not need it are served as before."""

    code = "store_damaged"


class StoreUnusable(StoreError):
    """The database is of a newer version than this program knows, or no database at all."""

    code = "store_unusable"


class BackupFailed(AgorError):
    """A backup could not be made, read or restored; what was there before is still there."""

    code = "backup_failed"


class MasterKeyUnusable(AgorError):
    """The master key of the credentials is missing, is another one, or cannot be read."""

    code = "master_key_unusable"


class DaemonError(AgorError):
    """Something is wrong with the daemon's process."""

    code = "daemon_error"


class DaemonRunning(DaemonError):
    """Another daemon serves this home already."""

    code = "daemon_running"


class DaemonNotRunning(DaemonError):
    """There is no daemon, or it does not answer."""

    code = "daemon_not_running"


class Disconnected(AgorError):
    """The other end of the connection is gone."""

    code = "disconnected"


class BrokenFrame(Disconnected):
    """The connection ended in the middle of a line."""

    code = "broken_frame"


class PeerStalled(Disconnected):
    """The other end stopped reading what we write, so we closed the connection."""

    code = "peer_stalled"


class RpcError(AgorError):
    """A request was answered with an error. `rpc_code` is the number on the wire."""

    code = "rpc_error"
    rpc_code = -32000

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        rpc_code: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        # An answer from the wire keeps the word and the number the other end gave it.
        if code is not None:
            self.code = code
        if rpc_code is not None:
            self.rpc_code = rpc_code

    def again(self) -> Self:
        """Copy it, with what the other end gave it."""
        return type(self)(self.message, hint=self.hint, code=self.code, rpc_code=self.rpc_code)


class ParseError(RpcError):
    """The line was not JSON, not UTF-8, or longer than the cap."""

    code = "parse_error"
    rpc_code = -32700


class InvalidRequest(RpcError):
    """The line was JSON but not a JSON-RPC 2.0 message."""

    code = "invalid_request"
    rpc_code = -32600


class MethodNotFound(RpcError):
    """The other end does not serve this method."""

    code = "method_not_found"
    rpc_code = -32601


class InvalidParams(RpcError):
    """The params do not have the form this method asks for."""

    code = "invalid_params"
    rpc_code = -32602


class InternalError(RpcError):
    """A bug on the other end; its log has the details."""

    code = "internal_error"
    rpc_code = -32603


class HandlerFailed(RpcError):
    """The method was understood and could not be carried out."""

    code = "handler_failed"
    rpc_code = -32000


class Overloaded(RpcError):
    """Too much is under way already."""

    code = "overloaded"
    rpc_code = -32001


class TokenRefused(RpcError):
    """The session token is missing, wrong, expired, or belongs to something else."""

    code = "token_refused"
    rpc_code = -32002


class UnknownTask(RpcError):
    """No such task, or terminal, here."""

    code = "unknown_task"
    rpc_code = -32003


class PermissionDenied(RpcError):
    """Somebody who may decide it said no."""

    code = "permission_denied"
    rpc_code = -32004


class TimedOut(RpcError):
    """No answer came in time."""

    code = "timed_out"
    rpc_code = -32005


class Cancelled(RpcError):
    """The request was cancelled by its caller before it was answered."""

    code = "cancelled"
    rpc_code = -32006


class InvalidResult(RpcError):
    """The other end answered with something that this method does not return."""

    code = "invalid_result"
    rpc_code = -32603


#: Number on the wire → the class that stands for it.
RPC_ERRORS: dict[int, type[RpcError]] = {
    kind.rpc_code: kind
    for kind in (
        ParseError, InvalidRequest, MethodNotFound, InvalidParams, InternalError, HandlerFailed,
        Overloaded, TokenRefused, UnknownTask, PermissionDenied, TimedOut, Cancelled,
    )
}  # fmt: skip
