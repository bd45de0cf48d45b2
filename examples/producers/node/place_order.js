// Places an order and writes its event, both in one transaction.

import pg from "pg";
import { v7 as uuidv7 } from "uuid";

/** Returns the id of the event. */
async function placeOrder(client, item, fail) {
  // Made before the transaction: a retry uses the same id, so the event is
  // stored only once.
  const eventId = uuidv7();
  await client.query("BEGIN");
  try {
    const inserted = await client.query(
      "INSERT INTO orders (item) VALUES ($1) RETURNING id",
      [item],
    );
    const order = inserted.rows[0].id;
    await client.query(
      `INSERT INTO outbox_event
         (event_id, event_type, aggregate_type, aggregate_id, payload)
       VALUES ($1, 'OrderPlaced', 'Order', $2, $3)`,
      [eventId, String(order), JSON.stringify({ order })],
    );
    if (fail) {
      throw new Error("the payment was refused: no order, no event");
    }
    await client.query("COMMIT");
  } catch (error) {
    // ROLLBACK fails too if the connection is lost; the server then rolls back
    // by itself. Report the first error.
    await client.query("ROLLBACK").catch(() => {});
    throw error;
  }
  return eventId;
}

// One connection for the whole transaction: `pool.query` may take another one
// for every statement. Without the variable pg reads PGHOST, PGUSER and so on.
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  await client.query(
    `CREATE TABLE IF NOT EXISTS orders
     (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)`,
  );
  console.log(await placeOrder(client, "tea", process.argv.includes("--fail")));
} finally {
  await client.end();
}
