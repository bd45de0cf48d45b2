import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;
import java.util.Objects;
import java.util.UUID;

/** Places an order and writes its event, both in one transaction. */
public final class PlaceOrder {
    public static void main(String[] args) throws SQLException {
        var url = System.getenv("JDBC_DATABASE_URL");
        Objects.requireNonNull(url, "JDBC_DATABASE_URL is not set");
        try (var connection = DriverManager.getConnection(url)) {
            try (var create = connection.createStatement()) {
                create.execute(
                        "CREATE TABLE IF NOT EXISTS orders ("
                                + " id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                                + " item text NOT NULL)");
            }
            System.out.println(placeOrder(connection, "tea", List.of(args).contains("--fail")));
        }
    }

    /** Returns the id of the event. */
    private static String placeOrder(Connection connection, String item, boolean fail)
            throws SQLException {
        // Made before the transaction: a retry uses the same id, so the event is stored only once.
        // Ids that grow with time (UUIDv7) keep indexes compact, but need a library.
        var eventId = UUID.randomUUID().toString();
        // With auto-commit every statement would be a transaction of its own.
        connection.setAutoCommit(false);
        try {
            var order = insertOrder(connection, item);
            insertEvent(connection, eventId, order);
            if (fail) {
                throw new IllegalStateException("the payment was refused: no order, no event");
            }
            connection.commit();
        } catch (SQLException | RuntimeException failure) {
            try {
                connection.rollback();
            } catch (SQLException lost) {
                // The connection is lost, and the server rolls back by itself. Report the first error.
                failure.addSuppressed(lost);
            }
            throw failure;
        }
        return eventId;
    }

    private static void insertEvent(Connection connection, String eventId, int order)
            throws SQLException {
        var sql =
                "INSERT INTO outbox_event"
                        + " (event_id, event_type, aggregate_type, aggregate_id, payload)"
                        + " VALUES (?, 'OrderPlaced', 'Order', ?, ?)";
        try (var insert = connection.prepareStatement(sql)) {
            insert.setString(1, eventId);
            insert.setString(2, Integer.toString(order));
            // A number needs no escaping. For anything else use a JSON library.
            insert.setString(3, "{\"order\":" + order + "}");
            insert.executeUpdate();
        }
    }

    private static int insertOrder(Connection connection, String item) throws SQLException {
        var sql = "INSERT INTO orders (item) VALUES (?) RETURNING id";
        try (var insert = connection.prepareStatement(sql)) {
            insert.setString(1, item);
            try (var inserted = insert.executeQuery()) {
                inserted.next();
                return inserted.getInt(1);
            }
        }
    }
}
