// Command producer places an order and writes its event, both in one transaction.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func main() {
	fail := flag.Bool("fail", false, "fail before the commit")
	flag.Parse()
	if err := run(context.Background(), *fail); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, fail bool) error {
	// Without the variable pgx reads PGHOST, PGUSER and so on.
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS orders
		(id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL)`)
	if err != nil {
		return err
	}
	eventID, err := placeOrder(ctx, conn, "tea", fail)
	if err != nil {
		return err
	}
	fmt.Println(eventID)
	return nil
}

// placeOrder returns the id of the event.
func placeOrder(ctx context.Context, conn *pgx.Conn, item string, fail bool) (string, error) {
	// Made before the transaction: a retry uses the same id, so the event is stored only once.
	id, err := uuid.NewV7()
	if err != nil {
		return "", err
	}
	eventID := id.String()
	// Commits when the function returns nil. An error rolls back both the order and the event.
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var order int
		err := tx.QueryRow(ctx, "INSERT INTO orders (item) VALUES ($1) RETURNING id", item).Scan(&order)
		if err != nil {
			return err
		}
		payload, err := json.Marshal(map[string]int{"order": order})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)
			VALUES ($1, 'OrderPlaced', 'Order', $2, $3)`,
			eventID, strconv.Itoa(order), string(payload))
		if err != nil {
			return err
		}
		if fail {
			return errors.New("the payment was refused: no order, no event")
		}
		return nil
	})
	return eventID, err
}
