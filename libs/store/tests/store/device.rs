//! Devices.

use domain::UserNumber;
use domain::content::Object;

use crate::fixture;

#[tokio::test]
async fn connecting_again_updates_the_device() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let user = fixture.store.merge_user(app, "ada", Object::new()).await.unwrap();
    fixture.store.connect_device(app, user.number, "phone-1", "android").await.unwrap();
    fixture.store.connect_device(app, user.number, "phone-1", "ios").await.unwrap();
    fixture.store.connect_device(app, user.number, "laptop", "browser").await.unwrap();
    let devices: Vec<(String, String)> =
        sqlx::query_as("SELECT device_id, device_type FROM device ORDER BY device_id")
            .fetch_all(&fixture.pool)
            .await
            .unwrap();
    let named = |id: &str, kind: &str| (id.to_owned(), kind.to_owned());
    assert_eq!(devices, [named("laptop", "browser"), named("phone-1", "ios")]);

    let nobody = UserNumber(user.number.0 + 1);
    let refused = fixture.store.connect_device(app, nobody, "phone-1", "ios").await.unwrap_err();
    assert!(refused.is_refused_data() && !refused.is_unavailable());
}
