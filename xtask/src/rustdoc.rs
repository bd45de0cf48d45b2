//! `cargo test --doc` with this program in the place of rustdoc: it runs the examples of a crate, and writes the pages
//! of the crate and of its programs beside that.
//!
//! `cargo doc` would compile every dependency once more, to check it only. The pages need nothing but the libraries that
//! the examples are linked with.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo::{Cargo, target_folder};

/// The folder of the pages. It is set where cargo calls this program as rustdoc.
const PAGES_VAR: &str = "XTASK_PAGES";

/// Options of the examples, and whether they have a value.
const TEST_OPTIONS: &[(&str, bool)] =
    &[("--test", false), ("--no-run", false), ("--test-run-directory", true), ("--test-args", true)];

/// The command with this program in the place of rustdoc.
pub(crate) fn with_pages(cargo: Cargo) -> Cargo {
    let xtask = std::env::current_exe().unwrap_or_default();
    let pages = target_folder().join("doc");
    cargo.env("RUSTDOC", &xtask.to_string_lossy()).env(PAGES_VAR, &pages.to_string_lossy())
}

/// What rustdoc has to say, if it is this program that cargo has called as rustdoc.
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
    // Cargo also asks for the version.
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

/// The arguments for the pages of a library, and of each program in its folder `bin`.
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
        // As cargo has it: nobody but us reads these pages.
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
    fn pages_are_those_of_the_library_and_of_each_program_beside_it() {
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
