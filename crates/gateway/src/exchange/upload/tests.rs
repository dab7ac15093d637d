use super::*;
use crate::memory::BodyMemory;
use http_body_util::channel::{Channel, Sender};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;

const HEAD: &str = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n";
const FILE: &str = "\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
const END: &str = "\r\n--b--\r\n";

type Source = Channel<Bytes, Infallible>;

fn upload(bounds: Bounds) -> (Sender<Bytes, Infallible>, Upload<Source>) {
    let (sender, body) = Channel::new(1000);
    let memory = Arc::new(BodyMemory::new());
    let body = Metered::new(body, bounds.0, (&memory, usize::MAX));
    (sender, Upload::new(body, bounds, FormScanner::new("b")))
}

async fn send(sender: &mut Sender<Bytes, Infallible>, text: impl AsRef<[u8]>) {
    sender
        .send_data(Bytes::copy_from_slice(text.as_ref()))
        .await
        .unwrap();
}

/// Everything that an attempt gets.
async fn read(mut body: UploadBody<Source>) -> Result<Vec<u8>, Broken> {
    let mut read = Vec::new();
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        read.extend_from_slice(&data?);
    }
    Ok(read)
}

#[tokio::test]
async fn every_attempt_reads_from_the_start_and_goes_on_with_what_comes() {
    let (mut sender, upload) = upload((None, 1 << 20));
    send(&mut sender, HEAD).await;
    send(&mut sender, "m").await;
    send(&mut sender, FILE).await;
    let model = upload.model(|| false).await.unwrap().unwrap();
    assert_eq!(model.name, "m");
    let change = upload.rename("another", true);
    let mut first = UploadBody::new(&upload, change.clone());
    let begun = poll_fn(|cx| first.poll_data(cx)).await.unwrap().unwrap();
    assert_eq!(begun, HEAD);
    drop(first);
    let second = UploadBody::new(&upload, change);
    assert_eq!(second.size_hint().exact(), None);
    let content = vec![b'x'; 100_000];
    let sending = async {
        tokio::task::yield_now().await;
        for piece in content.chunks(7_000) {
            send(&mut sender, piece).await;
        }
        send(&mut sender, END).await;
        drop(sender);
    };
    let (read_second, ()) = tokio::join!(read(second), sending);
    let expect = [HEAD, "another", FILE].concat().into_bytes();
    let expect = [expect, content, END.as_bytes().to_vec()].concat();
    assert!(read_second.unwrap() == expect);
    assert!(upload.is_complete());
    let third = UploadBody::new(&upload, upload.rename("another", true));
    assert_eq!(third.size_hint().exact(), Some(expect.len() as u64));
    assert!(read(third).await.unwrap() == expect);
}

#[tokio::test]
async fn a_model_is_put_in_where_none_is() {
    let (mut sender, upload) = upload((None, 1 << 20));
    let form = [&FILE[2..], "content", END].concat();
    send(&mut sender, &form).await;
    drop(sender);
    assert_eq!(upload.model(|| false).await, Ok(None));
    assert_eq!(upload.rename("m", false), None);
    let body = UploadBody::new(&upload, upload.rename("m", true));
    let length = body.size_hint().exact();
    let read = read(body).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read), [HEAD, "m\r\n", &form].concat());
    assert_eq!(length, Some(read.len() as u64));
}

#[tokio::test]
async fn a_second_model_ends_what_was_begun() {
    let (mut sender, upload) = upload((None, 1 << 20));
    send(&mut sender, [HEAD, "m\r\n"].concat()).await;
    send(&mut sender, [&FILE[2..], "x\r\n"].concat()).await;
    upload.model(|| false).await.unwrap();
    let body = UploadBody::new(&upload, None);
    send(&mut sender, [HEAD, "m", END].concat()).await;
    assert!(read(body).await.is_err());
    let fault = poll_fn(|cx| Poll::Ready(upload.drive(cx, false))).await;
    assert_eq!(fault, Some(UploadFault::Form(FormError::DuplicateModel)));
}

#[tokio::test]
async fn more_than_is_allowed_is_refused_midway() {
    let (mut sender, over) = upload((None, 1000));
    send(&mut sender, [HEAD, "m", FILE].concat()).await;
    over.model(|| false).await.unwrap();
    send(&mut sender, vec![b'x'; 1000]).await;
    let fault = poll_fn(|cx| Poll::Ready(over.drive(cx, false))).await;
    assert_eq!(fault, Some(UploadFault::Body(Fault::TooLarge)));
    let (_sender, said) = upload((Some(1001), 1000));
    let fault = said.model(|| false).await;
    assert_eq!(fault, Err(UploadFault::Body(Fault::TooLarge)));
}

#[tokio::test(start_paused = true)]
async fn a_form_that_stops_coming_is_given_up() {
    let (mut sender, upload) = upload((None, 1000));
    send(&mut sender, HEAD).await;
    let began = Instant::now();
    let fault = upload.model(|| false).await;
    assert_eq!(fault, Err(UploadFault::Body(Fault::Slow)));
    assert_eq!(began.elapsed().as_secs(), 30);
}

#[tokio::test]
async fn the_upstreams_clock_stands_while_the_client_is_waited_for() {
    let (mut sender, upload) = upload((None, 1 << 20));
    send(&mut sender, [HEAD, "m", FILE].concat()).await;
    upload.model(|| false).await.unwrap();
    let patience = Duration::from_secs(5);
    assert!(upload.due(patience).is_some(), "it has not taken what is there");
    let mut body = UploadBody::new(&upload, None);
    poll_fn(|cx| {
        while body.poll_data(cx).is_ready() {}
        Poll::Ready(())
    })
    .await;
    assert_eq!(upload.due(patience), None);
    send(&mut sender, ["x", END].concat()).await;
    drop(sender);
    poll_fn(|cx| Poll::Ready(upload.drive(cx, false))).await;
    assert!(upload.is_complete() && upload.due(patience).is_some());
}

#[tokio::test]
async fn tiny_pieces_cost_little_more_than_their_bytes() {
    let (mut sender, upload) = upload((None, 1 << 20));
    send(&mut sender, [HEAD, "m", FILE].concat()).await;
    for _ in 0..4_000 {
        for _ in 0..50 {
            sender.send_data(Bytes::from_static(b"x")).await.unwrap();
        }
        poll_fn(|cx| Poll::Ready(upload.drive(cx, false))).await;
        tokio::task::yield_now().await;
    }
    let shared = upload.0.borrow();
    assert!(shared.len >= 200_000 && shared.blocks.len() < 8);
}

#[tokio::test]
async fn what_was_read_is_let_go_of_once_the_answer_is_on_its_way() {
    let (mut sender, upload) = upload((None, 1 << 20));
    send(&mut sender, [HEAD, "m", FILE].concat()).await;
    upload.model(|| false).await.unwrap();
    let mut body = UploadBody::new(&upload, None);
    for _ in 0..10 {
        send(&mut sender, vec![b'x'; PIECE_MIN]).await;
    }
    poll_fn(|cx| {
        while body.poll_data(cx).is_ready() {}
        Poll::Ready(())
    })
    .await;
    upload.commit();
    send(&mut sender, END).await;
    drop(sender);
    assert_eq!(read(body).await.unwrap(), END.as_bytes());
    let kept: usize = upload
        .0
        .borrow()
        .blocks
        .iter()
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert!(kept <= END.len() + HEAD.len() + FILE.len() + 1, "{kept}");
}

#[tokio::test]
async fn nobody_reads_on_what_is_not_wanted() {
    let (_sender, upload) = upload((None, 1000));
    let body = UploadBody::new(&upload, None);
    let leaving = async {
        tokio::task::yield_now().await;
        upload.abandon();
    };
    let (read, ()) = tokio::join!(read(body), leaving);
    assert!(read.is_err());
}
