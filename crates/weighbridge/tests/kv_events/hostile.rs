//! Whoever reaches the port of an engine's events can neither end the gateway nor make it believe anything.

use crate::world::World;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use weighbridge_test_engine::eventually;

fn at(world: &World) -> TcpStream {
    let config = std::fs::read_to_string(world.gateway.config_path()).unwrap();
    let (_, rest) = config.split_once("bind: 'tcp://").unwrap();
    let (place, _) = rest.split_once('\'').unwrap();
    TcpStream::connect(place).unwrap()
}

fn greeting() -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    bytes
}

fn ready() -> Vec<u8> {
    [&greeting()[..], b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB"].concat()
}

/// Whether the gateway closes the connection.
fn closes(mut stream: TcpStream) -> bool {
    stream
        .set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    let mut all = Vec::new();
    !matches!(stream.read_to_end(&mut all), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn other_talk_ends_its_own_connection_alone() {
    let mut world = World::new(false, 1000);
    world.work(5, |_| false);
    world.wait_equal();
    for talk in [
        &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..],
        &[0; 64],
        &greeting()[..40],
        &[0xff; 100],
    ] {
        let mut stream = at(&world);
        stream.write_all(talk).unwrap();
        // A gateway that has closed already, with bytes of ours unread, has taken the connection away.
        match stream.shutdown(std::net::Shutdown::Write) {
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            ended => ended.unwrap(),
        }
        assert!(closes(stream));
    }
    world.work(5, |_| false);
    world.wait_equal();
    assert_eq!(world.shown()["losses"], 0);
}

#[test]
fn a_message_of_any_announced_size_is_refused_and_the_engine_comes_back() {
    let mut world = World::new(false, 1000);
    world.work(5, |_| false);
    let mut stream = at(&world);
    stream.write_all(&ready()).unwrap();
    // Four exabytes.
    stream.write_all(b"\x02\x3f\xff\xff\xff\xff\xff\xff\xff").unwrap();
    assert!(closes(stream));
    world.publisher.reconnect();
    world.work(5, |_| false);
    world.wait_equal();
}

#[test]
fn messages_of_no_sense_change_nothing() {
    let mut world = World::new(false, 1000);
    world.work(5, |_| false);
    world.wait_equal();
    let mut stream = at(&world);
    stream.write_all(&ready()).unwrap();
    stream.write_all(b"\x00\x03abc\x01\x00\x00\x02no").unwrap();
    assert!(eventually(crate::shared::SOON, || world.shown()["unreadable"]
        .as_u64()
        >= Some(2)));
    world.publisher.reconnect();
    world.work(5, |_| false);
    world.wait_equal();
}
