//! Writes the manual pages anew, into `docs/man`: `cargo run -p ip-masq-agent --example manual`.

mod pages;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for page in pages::all() {
        let path = directory.join(page.file_name());
        fs::write(&path, page.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
