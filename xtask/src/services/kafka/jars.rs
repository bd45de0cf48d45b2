//! The jars of Apache Kafka. Debian has no package of them, so Maven downloads them once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::services::{cache, install, process};

/// This version runs on Java 17 and later.
const KAFKA_VERSION: &str = "4.1.1";

/// The version of slf4j-simple, which writes Kafka's log to standard error and needs no configuration. It must be that
/// of the slf4j interface that Kafka is built with.
const LOGGER_VERSION: &str = "1.7.36";

const COPY_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies";

/// Returns the folder with the jars.
pub(super) fn obtain() -> Result<PathBuf, String> {
    cache::obtain(&format!("kafka-{KAFKA_VERSION}"), download)
}

fn download(folder: &Path) -> Result<(), String> {
    if process::find("mvn").is_none() {
        install::install(&["maven"])?;
    }
    eprintln!("Downloading Apache Kafka {KAFKA_VERSION}");
    let pom = folder.join("pom.xml");
    fs::write(&pom, project()).map_err(|error| format!("{} cannot be written: {error}", pom.display()))?;
    let mut mvn = Command::new("mvn");
    mvn.args(["--batch-mode", "--quiet", "--file"]).arg(&pom).args([COPY_GOAL, "-DincludeScope=runtime"]);
    process::run(mvn.arg(format!("-DoutputDirectory={}", folder.display()))).map(|_| ())
}

/// The pom.xml of a project that contains only dependencies.
fn project() -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    let kafka = dependency("org.apache.kafka", "kafka_2.13", KAFKA_VERSION);
    let logger = dependency("org.slf4j", "slf4j-simple", LOGGER_VERSION);
    format!(
        "<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>posthaste</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{kafka}{logger}  </dependencies>
</project>
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_pinned() {
        let project = project();
        assert!(
            project
                .contains(&format!("<artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>"))
        );
        assert_eq!(
            project.matches("<dependency>").count(),
            project.matches("</version></dependency>").count()
        );
    }
}
