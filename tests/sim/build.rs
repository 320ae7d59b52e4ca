//! Tells the compiler of the setting with which tokio takes a seed.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tokio_unstable)");
}
