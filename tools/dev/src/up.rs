//! The program `up`: runs the app and its servers on this machine, supervised until Ctrl-C.

mod data_directory;
mod demo;
mod options;
mod run;
mod service;
mod sweeper;

pub use self::{options::Options, run::run};
