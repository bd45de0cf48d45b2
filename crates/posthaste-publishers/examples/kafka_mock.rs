//! A Kafka mock cluster in memory, for tests on machines without Java. It prints the addresses of its brokers on
//! one line and runs until standard input ends or it is killed. It creates topics on first use and keeps nothing on
//! disk.

use std::io::{Read as _, Write as _};

use rdkafka::mocking::MockCluster;

fn main() -> Result<(), posthaste::BoxError> {
    let cluster = MockCluster::new(3)?;
    println!("{}", cluster.bootstrap_servers());
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
