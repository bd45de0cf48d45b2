"""Places an order and writes its event, both in one transaction."""

import json
import os
import sys
import uuid

import psycopg

# Ids that grow with time (UUIDv7) keep indexes compact. Python has them from 3.14 on.
new_id = getattr(uuid, "uuid7", uuid.uuid4)


def place_order(connection: psycopg.Connection, item: str, fail: bool) -> str:
    """Returns the id of the event."""
    # Made before the transaction: a retry uses the same id, so the event is stored
    # only once.
    event_id = str(new_id())
    # Commits at the end of the block. An exception rolls back both.
    with connection.transaction():
        (order,) = connection.execute(
            "INSERT INTO orders (item) VALUES (%s) RETURNING id", (item,)
        ).fetchone()
        connection.execute(
            """
            INSERT INTO outbox_event
              (event_id, event_type, aggregate_type, aggregate_id, payload)
            VALUES (%s, 'OrderPlaced', 'Order', %s, %s)
            """,
            (event_id, str(order), json.dumps({"order": order})),
        )
        if fail:
            raise RuntimeError("the payment was refused: no order, no event")
    return event_id


def main() -> None:
    # Without the variable libpq reads PGHOST, PGUSER and so on.
    url = os.environ.get("DATABASE_URL", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("""
            CREATE TABLE IF NOT EXISTS orders
              (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)
            """)
        print(place_order(connection, "tea", fail="--fail" in sys.argv))


if __name__ == "__main__":
    main()
