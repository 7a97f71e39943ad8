//! Short form of the overload scenarios, in which the system gets more load than it accepts. `cargo xtask overload` runs the long
//! form in a release build, and also checks latency.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attacks;
mod flood;
mod generator;
mod hostile;
mod lanes;
mod live;
mod scale;
mod system;

use std::time::Duration;

use crate::scale::Scale;

const SHORT: Scale = Scale {
    span: Duration::from_secs(10),
    rate_limit: 10,
    offered_per_second: 100,
    connections: 32,
    bulk_recipients: 100,
    transactional_per_second: 10,
};

#[tokio::test(flavor = "multi_thread")]
async fn ten_times_the_load_is_refused_in_bounded_memory_and_accepted_sends_arrive() {
    println!("{}", flood::run(&SHORT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactional_sends_arrive_while_the_bulk_lane_is_saturated() {
    println!("{}", lanes::run(&SHORT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attack_never_halves_the_throughput_of_another_app() {
    let scale = Scale { span: SHORT.span / 2, ..SHORT };
    println!("{}", attacks::run(&scale).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_clients_get_each_item_once_while_gateways_and_nats_restart() {
    let scale =
        Scale { span: Duration::from_secs(8), connections: 100, transactional_per_second: 50, ..SHORT };
    println!("{}", live::run(&scale).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_lives_in_384_mib_while_every_way_in_without_a_secret_is_attacked() {
    println!("{}", hostile::run(SHORT.span / 3).await);
}
