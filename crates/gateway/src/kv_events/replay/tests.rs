use super::*;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

/// What a ROUTER says first.
fn greeting() -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    bytes.extend(b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06ROUTER");
    bytes
}

/// `["", number, "x"]`.
fn message(number: u64) -> Vec<u8> {
    [&b"\x01\x00\x01\x08"[..], &number.to_be_bytes(), b"\x00\x01x"].concat()
}

/// Asks from number 5 on a publisher whose answer has these numbers and never ends: how it ended, and how many messages
/// were passed on.
async fn asked(
    mut number: impl FnMut(u64) -> u64 + 'static,
    within: Duration,
) -> (Result<(), LinkError>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = Place {
        host: "127.0.0.1".to_owned(),
        port: listener.local_addr().unwrap().port(),
    };
    let publisher = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&greeting()).await.unwrap();
        for count in 0.. {
            if stream.write_all(&message(number(count))).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let (sender, mut replies) = mpsc::channel(QUEUE);
    let gateway = async {
        let mut link = Link::connect(&place, Role::Dealer).await.unwrap();
        let ended = answer(&mut link, (5, within), &sender).await;
        drop(sender);
        ended
    };
    let taken = async {
        let mut count = 0;
        while replies.recv().await.is_some() {
            count += 1;
        }
        count
    };
    tokio::select! {
        both = async { tokio::join!(gateway, taken) } => both,
        () = publisher => unreachable!("it never ends"),
        () = sleep(Duration::from_secs(60)) => panic!("the answer is taken for ever"),
    }
}

#[tokio::test]
async fn an_answer_that_never_ends_is_none() {
    let (ended, taken) = asked(|count| 5 + count, Duration::from_millis(300)).await;
    assert!(matches!(ended, Err(LinkError::AnswerTime)), "{ended:?}");
    assert!(taken > 0);
}

#[tokio::test]
async fn an_answer_of_what_was_not_asked_for_is_none() {
    let long = Duration::from_secs(50);
    for older in [true, false] {
        // Older ones, or one again and again, of which the first is wanted.
        let (ended, taken) = asked(move |_| if older { 4 } else { 7 }, long).await;
        assert!(matches!(ended, Err(LinkError::Useless)), "{ended:?}");
        assert_eq!(taken, usize::from(!older) + 256);
    }
}
