//! A stand-in for rustdoc under `cargo test --doc`: it runs the doc tests of a crate and writes its pages at the same
//! time.
//!
//! `cargo doc` would compile every dependency a second time, in check mode. The pages need only the libraries that the
//! doc tests are linked with, which exist already. The programs of a crate get pages too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo::{Cargo, target_folder};

/// The environment variable with the folder of the pages. If it is set, cargo has called this program as rustdoc.
const PAGES_VAR: &str = "XTASK_PAGES";

/// Options of doc tests, which rustdoc refuses when it writes pages, and whether they have a value.
const TEST_OPTIONS: &[(&str, bool)] =
    &[("--test", false), ("--no-run", false), ("--test-run-directory", true), ("--test-args", true)];

/// Makes cargo call this program instead of rustdoc.
pub(crate) fn with_pages(cargo: Cargo) -> Cargo {
    let xtask = std::env::current_exe().unwrap_or_default();
    let pages = target_folder().join("doc");
    cargo.env("RUSTDOC", &xtask.to_string_lossy()).env(PAGES_VAR, &pages.to_string_lossy())
}

/// Does the work of rustdoc if cargo has called this program as rustdoc, and returns the exit code.
pub(crate) fn run_if_called() -> Option<ExitCode> {
    let pages = PathBuf::from(std::env::var_os(PAGES_VAR)?);
    let args: Vec<String> = std::env::args().skip(1).collect();
    Some(match run(&args, &pages) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rustdoc cannot be run: {error}");
            ExitCode::FAILURE
        }
    })
}

fn run(args: &[String], pages: &Path) -> io::Result<bool> {
    let mut examples = Command::new("rustdoc").args(args).spawn()?;
    // Without `--test`, cargo asks for the version only.
    let is_test = args.iter().any(|arg| arg == "--test");
    let are_written = !is_test || write_pages(args, pages)?;
    Ok(examples.wait()?.success() && are_written)
}

fn write_pages(args: &[String], pages: &Path) -> io::Result<bool> {
    let mut passed = true;
    for args in commands(args)? {
        let output =
            Command::new("rustdoc").args(["--deny=warnings", "--out-dir"]).arg(pages).args(args).output()?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            passed = false;
        }
    }
    Ok(passed)
}

/// The arguments of rustdoc for the pages of a library, and for those of each program in its folder `bin`.
fn commands(args: &[String]) -> io::Result<Vec<Vec<String>>> {
    let library = without_test_options(args);
    let Some(source) = library.iter().position(|arg| arg.ends_with("lib.rs")) else {
        return Ok(vec![library]);
    };
    let folder = Path::new(&library[source]).with_file_name("bin");
    let mut commands = vec![library.clone()];
    for file in fs::read_dir(folder).into_iter().flatten() {
        let file = file?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut program = library.clone();
        program[source] = file.to_string_lossy().into_owned();
        set(&mut program, "--crate-name", &name);
        set(&mut program, "--crate-type", "bin");
        // `cargo doc` does the same for a program: only its developers read these pages.
        program.extend(
            ["--document-private-items", "--allow=rustdoc::private-intra-doc-links"].map(str::to_owned),
        );
        commands.push(program);
    }
    Ok(commands)
}

fn without_test_options(args: &[String]) -> Vec<String> {
    let mut args = args.iter();
    let mut kept = Vec::new();
    while let Some(arg) = args.next() {
        match TEST_OPTIONS.iter().find(|(option, _)| option == arg) {
            Some((_, true)) => drop(args.next()),
            Some((_, false)) => {}
            None => kept.push(arg.clone()),
        }
    }
    kept
}

fn set(args: &mut [String], option: &str, value: &str) {
    if let Some(at) = args.iter().position(|arg| arg == option) {
        args[at + 1] = value.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_written_for_the_library_and_for_each_of_its_programs() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        fs::write(folder.path().join("bin/demo.rs"), "").unwrap();
        let folder = folder.path().display();
        let line = format!(
            "--crate-type lib --crate-name shop --test {folder}/lib.rs --test-run-directory /x --extern a=b.rlib"
        );
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found: Vec<String> = commands(&args).unwrap().iter().map(|args| args.join(" ")).collect();
        let private = " --document-private-items --allow=rustdoc::private-intra-doc-links";
        let expected = [
            format!("--crate-type lib --crate-name shop {folder}/lib.rs --extern a=b.rlib"),
            format!("--crate-type bin --crate-name demo {folder}/bin/demo.rs --extern a=b.rlib{private}"),
        ];
        assert_eq!(found, expected);
    }
}
