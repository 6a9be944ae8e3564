"""The tables, and what the database itself refuses.

A rule that a constraint can hold is held by the database: it stands for every program that
ever connects, the one with the fault in it too.

======================  ==========================================================
constraint              what can never be stored
======================  ==========================================================
operation_id            two operations under one business identity
scope, idempotency_key  two operations that the service would take for one
receipt                 a success without its receipt
sent                    an outcome in doubt about something that was never sent
never_sent              "cancelled" for something that was sent
change_id               one change written twice by a retry
message_id              one message sent as two; one message consumed twice
======================  ==========================================================

The schema is made on first use and carries a version. It knows nothing of workers.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    select,
    text,
)

from lai.operations.records import SCHEMA_VERSION, OperationError, State

metadata = MetaData()
_ID = BigInteger().with_variant(Integer, "sqlite")  # what SQLite counts up by itself

operations = Table(
    "operations",
    metadata,
    Column("schema_version", Integer, nullable=False),
    Column("run_id", String, nullable=False),
    Column("operation_id", String, primary_key=True),
    Column("tool_name", String, nullable=False),
    Column("tool_version", String, nullable=False),
    Column("input_ref", String, nullable=False),
    Column("state", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("remote_job_id", String),
    Column("result_ref", String),
    Column("resume_action", String),
    Column("input_sha256", String, nullable=False),
    Column("scope", String, nullable=False),
    Column("idempotency_key", String, nullable=False),
    Column("result_sha256", String),
    Column("version", BigInteger, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("owner", String),
    Column("lease_until", Double),
    Column("next_query_at", Double, index=True),
    Column("query_count", Integer, nullable=False),
    Column("deadline_at", Double, nullable=False),
    Column("sent_at", Double),
    Column("absent_final_at", Double),
    Column("key_expires_at", Double),
    Column("last_said", String),
    Column("review_reason", Text),
    UniqueConstraint("scope", "idempotency_key"),
    CheckConstraint(f"state IN ({', '.join(repr(str(s)) for s in State)})", "known_state"),
    CheckConstraint(
        "state <> 'succeeded' OR (result_ref IS NOT NULL AND result_sha256 IS NOT NULL)", "receipt"
    ),
    CheckConstraint("state NOT IN ('pending', 'unknown') OR sent_at IS NOT NULL", "sent"),
    CheckConstraint("state <> 'cancelled' OR sent_at IS NULL", "never_sent"),
)

# Everything that was heard or decided, in order; rows are only ever added.
events = Table(
    "events",
    metadata,
    Column("number", _ID, primary_key=True, autoincrement=True),
    Column("change_id", String, unique=True, nullable=False),
    Column("operation_id", String, ForeignKey(operations.c.operation_id), nullable=False),
    Column("at", Double, nullable=False),
    Column("by", String, nullable=False),
    Column("fence", BigInteger),
    Column("kind", String, nullable=False),  # a state that was reached; or late, alarm
    Column("evidence", Text, nullable=False),
)

outbox = Table(
    "outbox",
    metadata,
    Column("message_id", String, primary_key=True),
    Column("operation_id", String, ForeignKey(operations.c.operation_id), nullable=False),
    Column("state", String, nullable=False),
    Column("made_at", Double, nullable=False),
    Column("published_at", Double, index=True),
)

inbox = Table(
    "inbox",
    metadata,
    Column("consumer", String, primary_key=True),
    Column("message_id", String, primary_key=True),
)

about = Table("about", metadata, Column("schema_version", Integer, primary_key=True))


def prepare(connection: Connection) -> None:
    """Make the tables if there are none; raise OperationError for another version's."""
    if connection.dialect.name == "postgresql":  # two programs may come here first
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('lai.operations'))"))
    metadata.create_all(connection)
    found = connection.scalar(select(about.c.schema_version))
    if found is None:
        connection.execute(insert(about).values(schema_version=SCHEMA_VERSION))
    elif found != SCHEMA_VERSION:
        raise OperationError(
            f"the database has schema version {found}; this program works with {SCHEMA_VERSION}. "
            "Use the program that made it, or another database."
        )
