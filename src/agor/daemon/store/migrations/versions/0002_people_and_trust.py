"""People and trust: accounts, shares, credentials, rules, workspaces, audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

PLAIN = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """There is no way back: keep a copy of the database instead."""
    op.add_column("users", sa.Column("password_hash", PLAIN))
    op.add_column("users", sa.Column("disabled_at", sa.BigInteger))
    op.create_index("ix_users_name", "users", ["name"], unique=True)
    op.add_column("sessions", sa.Column("worktree_id", PLAIN))
    named = sa.text("worktree_id IS NOT NULL")
    op.create_index(
        "ix_sessions_worktree", "sessions", ["worktree_id"],
        sqlite_where=named, postgresql_where=named,
    )  # fmt: skip
    op.add_column("permission_requests", sa.Column("decided_rule", PLAIN))
    _create_ways_in()
    _create_shares_and_credentials()
    _create_rules()
    _create_workspaces()
    _create_audit()


def _create_ways_in() -> None:
    op.create_table(
        "api_tokens",
        sa.Column("token_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("token_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("token_id", name="pk_api_tokens"),
    )
    op.create_index("ix_api_tokens_hash", "api_tokens", ["token_hash"], unique=True)
    op.create_index("ix_api_tokens_user", "api_tokens", ["user_id", "created_at", "token_id"])
    op.create_table(
        "sign_ins",
        sa.Column("sign_in_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("sign_in_id", name="pk_sign_ins"),
    )
    op.create_index("ix_sign_ins_hash", "sign_ins", ["secret_hash"], unique=True)
    op.create_index("ix_sign_ins_user", "sign_ins", ["user_id"])


def _create_shares_and_credentials() -> None:
    op.create_table(
        "shares",
        sa.Column("session_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("access", PLAIN, nullable=False),
        sa.Column("created_by", PLAIN, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("session_id", "user_id", name="pk_shares"),
    )
    op.create_index("ix_shares_user", "shares", ["user_id", "session_id"])
    op.create_table(
        "credentials",
        sa.Column("credential_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("base_url", PLAIN),
        sa.Column("last_four", PLAIN, nullable=False),
        sa.Column("set_by", PLAIN, nullable=False),
        sa.Column("key_version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
        sa.Column("agents", sa.LargeBinary),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("credential_id", name="pk_credentials"),
    )
    op.create_index("ix_credentials_name", "credentials", ["user_id", "name"], unique=True)
    op.create_index("ix_credentials_version", "credentials", ["key_version"])


def _create_rules() -> None:
    op.create_table(
        "permission_rules",
        sa.Column("rule_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("effect", PLAIN, nullable=False),
        sa.Column("scope", PLAIN, nullable=False),
        sa.Column("scope_id", PLAIN, nullable=False),
        sa.Column("tool", PLAIN, nullable=False),
        sa.Column("reason", PLAIN),
        sa.Column("permission_id", PLAIN),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("input", sa.LargeBinary),
        sa.Column("exact_input", sa.LargeBinary),
        sa.PrimaryKeyConstraint("rule_id", name="pk_permission_rules"),
    )
    op.create_index(
        "ix_permission_rules_user", "permission_rules", ["user_id", "created_at", "rule_id"]
    )


def _create_workspaces() -> None:
    op.create_table(
        "repos",
        sa.Column("repo_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("path", PLAIN, nullable=False),
        sa.Column("url", PLAIN),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("problem", sa.LargeBinary),
        sa.PrimaryKeyConstraint("repo_id", name="pk_repos"),
    )
    op.create_index("ix_repos_user", "repos", ["user_id", "created_at", "repo_id"])
    op.create_table(
        "worktrees",
        sa.Column("worktree_id", PLAIN, nullable=False),
        sa.Column("repo_id", PLAIN, nullable=False),
        sa.Column("user_id", PLAIN, nullable=False),
        sa.Column("name", PLAIN, nullable=False),
        sa.Column("path", PLAIN, nullable=False),
        sa.Column("branch", PLAIN, nullable=False),
        sa.Column("base", PLAIN, nullable=False),
        sa.Column("base_commit", PLAIN, nullable=False),
        sa.Column("status", PLAIN, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("worktree_id", name="pk_worktrees"),
    )
    op.create_index("ix_worktrees_repo", "worktrees", ["repo_id"])
    op.create_index("ix_worktrees_user", "worktrees", ["user_id", "created_at", "worktree_id"])


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor_id", PLAIN),
        sa.Column("actor", PLAIN, nullable=False),
        sa.Column("action", PLAIN, nullable=False),
        sa.Column("session_id", PLAIN),
        sa.Column("subject", PLAIN),
        sa.Column("result", PLAIN, nullable=False),
        sa.Column("detail", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit"),
    )
    op.create_index("ix_audit_action", "audit", ["action", "number"])
    op.create_index("ix_audit_actor", "audit", ["actor_id", "number"])
    op.create_index("ix_audit_at", "audit", ["at", "number"])
    op.create_index("ix_audit_session", "audit", ["session_id", "number"])
    _make_append_only(op.get_bind().dialect.name)


def _make_append_only(database: str) -> None:
    """Have the database itself refuse to change or remove a record."""
    for statement in _APPEND_ONLY_SQLITE if database == "sqlite" else _APPEND_ONLY_POSTGRES:
        op.execute(statement)


_APPEND_ONLY_SQLITE = (
    """
    CREATE TRIGGER audit_keeps_what_it_has BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    """
    CREATE TRIGGER audit_loses_nothing BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
    # INSERT OR REPLACE removes what it replaces without asking the trigger before.
    """
    CREATE TRIGGER audit_replaces_nothing BEFORE INSERT ON audit
    WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END
    """,
)
_APPEND_ONLY_POSTGRES = (
    """
    CREATE OR REPLACE FUNCTION refuse_to_change_audit() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$
    """,
    """
    CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit()
    """,
)
