//! Texts that the store's columns cannot hold, or that cannot be read.

use posthaste::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(type = "")]
struct Empty;

#[derive(Serialize, Deserialize, Event)]
#[event(aggregate = "AnAggregateWhoseNameIsOneCharacterLongerThanTheSixtyFourThatFits!")]
struct TooLong;

#[derive(Serialize, Deserialize, Event)]
#[event(type = "Order\tPlaced")]
struct Unprintable;

fn main() {}
