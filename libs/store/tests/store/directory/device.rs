//! Devices.

use domain::DeviceType::{Android, Browser, Ios};
use domain::content::Object;
use domain::device::MAX_DEVICES;
use domain::{AppId, DeviceType};

use crate::{Fixture, fixture};

async fn devices(fixture: &Fixture, app: AppId, user: &str) -> Vec<(String, Option<DeviceType>)> {
    let user = fixture.store.directory().find_user(app, user).await.unwrap().unwrap();
    let devices = fixture.store.directory().list_devices(app, user.number).await.unwrap();
    devices.into_iter().map(|device| (device.device_id, device.device_type)).collect()
}

#[tokio::test]
async fn connecting_again_updates_the_device() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let connect = |device, kind| {
        let store = fixture.store.clone();
        async move { store.directory().connect_device(app, "ada", &Object::new(), device, kind).await.unwrap() }
    };
    connect("phone", Some(Android)).await;
    connect("laptop", Some(Browser)).await;
    connect("thing", None).await;
    connect("phone", Some(Ios)).await;
    connect("laptop", None).await;
    let named = |id: &str, kind| (id.to_owned(), kind);
    let expected = [named("laptop", Some(Browser)), named("phone", Some(Ios)), named("thing", None)];
    assert_eq!(devices(&fixture, app, "ada").await, expected);
}

#[tokio::test]
async fn the_least_recently_connected_device_is_dropped() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let connecting = async |user: &str, device: &str| {
        fixture.store.directory().connect_device(app, user, &Object::new(), device, None).await.unwrap();
    };
    connecting("bob", "d0").await;
    for index in 0..MAX_DEVICES {
        connecting("ada", &format!("d{index}")).await;
    }
    connecting("ada", "d0").await;
    connecting("ada", "one more").await;
    let left = devices(&fixture, app, "ada").await;
    assert_eq!(i64::try_from(left.len()).unwrap(), MAX_DEVICES);
    assert_eq!((left[0].0.as_str(), left[1].0.as_str()), ("one more", "d0"));
    assert!(left.iter().all(|(id, _)| id != "d1"));
    assert_eq!(devices(&fixture, app, "bob").await.len(), 1);
}
