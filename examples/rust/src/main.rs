// Names what is in pictures, and runs the same network on numbers, in Rust.
//   build   GRAFT_LIB_DIR=build/release/bindings/c cargo build --release --offline --manifest-path examples/rust/Cargo.toml
//   run     examples/rust/target/release/classify apps/graft/demo/model.onnx apps/graft/demo/pictures/moon-1.png apps/graft/demo/pictures/fish-2.png
//   prints  input: [-1, 3, 64, 64]
//   prints  apps/graft/demo/pictures/moon-1.png: moon
//   prints  apps/graft/demo/pictures/fish-2.png: fish
//   prints  scores: [2, 8]
//   prints  file.open: there/is/none.onnx: No such file or directory

mod ffi;
mod graft;

use graft::{Classifier, Error, Model, Session};

fn run(model: &str, pictures: &[String]) -> Result<(), Error> {
    let model = Model::load(model)?;
    if let Some((name, extents)) = model.input(0) {
        println!("{name}: {extents:?}");
    }
    let mut classifier = Classifier::new(&model)?;
    for picture in pictures {
        if let Some((label, _)) = classifier.classify(picture, 1)?.first() {
            println!("{picture}: {label}");
        }
    }
    let mut session = Session::new(&model)?;
    let zeros = vec![0.0f32; 2 * 3 * 64 * 64];
    let (shape, _numbers) = session.run(&zeros, &[2, 3, 64, 64])?;
    println!("scores: {shape:?}");
    if let Err(error) = Model::load("there/is/none.onnx") {
        println!("{error}");
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() < 3 {
        eprintln!("usage: {} MODEL PICTURE...", arguments[0]);
        std::process::exit(2);
    }
    if let Err(error) = run(&arguments[1], &arguments[2..]) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
