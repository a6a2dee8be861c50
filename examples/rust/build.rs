//! Tells the linker where libgraft lies, and the program where to find it when it runs.

fn main() {
    println!("cargo:rerun-if-env-changed=GRAFT_LIB_DIR");
    println!("cargo:rustc-link-lib=dylib=graft");
    if let Ok(folder) = std::env::var("GRAFT_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
