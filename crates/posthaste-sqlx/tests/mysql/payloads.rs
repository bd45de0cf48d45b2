//! Events as MySQL and MariaDB keep them.

payload_tests!("needs MariaDB: cargo xtask test");
