//! A Kafka in memory, for tests where there is no Java: prints its brokers' addresses on one line, and runs
//! until standard input ends or it is killed. It makes topics when they are asked for, and forgets all of it.

use std::io::{Read as _, Write as _};

use rdkafka::mocking::MockCluster;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = MockCluster::new(3)?;
    println!("{}", cluster.bootstrap_servers());
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
