use crate::text_enum::text_enum;

text_enum! {
    /// A change that the audit log records, with its name there.
    Action {
        AppCreate = "app.create",
        AppSet = "app.set",
        AppRotateSecret = "app.rotate-secret",
        LinkKeyRotate = "app.link-key.rotate",
        SigningKeyCreate = "app.signing-key.create",
        SigningKeyRevoke = "app.signing-key.revoke",
        ProviderSet = "provider.set",
        ProviderEnable = "provider.enable",
        ProviderDisable = "provider.disable",
        ProviderRemove = "provider.remove",
        TemplatePut = "template.put",
        TemplateTestSend = "template.test-send",
        WebhookSet = "webhook.set",
        WebhookRemove = "webhook.remove",
        WebhookSecretRotate = "webhook.secret.rotate",
        WebhookRedeliver = "webhook.redeliver",
        SuppressionLift = "suppression.lift",
        ParkedRedrive = "parked.redrive",
        RedriveStart = "redrive.start",
        RedrivePause = "redrive.pause",
        RedriveResume = "redrive.resume",
        RedriveStop = "redrive.stop",
        WaitingRelease = "waiting.release",
        RequestCancel = "request.cancel",
        UserErase = "user.erase",
        OperatorCreate = "operator.create",
        OperatorLink = "operator.link",
        OperatorDisable = "operator.disable",
        OperatorEnable = "operator.enable",
    }
}
