//! Compiles the members' messages without `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(["proto/member.proto"], ["proto"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    println!("cargo:rerun-if-changed=proto/member.proto");
    Ok(())
}
