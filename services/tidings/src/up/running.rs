use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use service_kit::{Config, Context, server};
use stand_ins::http::HttpServer;
use stand_ins::{StandInSettings, StandIns};
use tokio::net::TcpStream;
use tokio::time::{interval, timeout};

use super::Arguments;
use super::data_directory::DataDirectory;
use super::demo;
use super::ports::KeptPorts;
use super::shop::{self, ShopSettings};
use crate::dev_file::DevFile;
use crate::provider::kinds;
use crate::version::BUILD;

const READY_WITHIN: Duration = Duration::from_secs(30);
const READY_INTERVAL: Duration = Duration::from_millis(20);
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct RunningServices {
    pub(super) context: Context,
    pub(super) dev: DevFile,
    stand_ins: StandIns,
    shop: HttpServer,
}

impl RunningServices {
    /// Waits until the API answers.
    pub(super) async fn start(
        mut config: Config,
        directory: &DataDirectory,
        arguments: &Arguments,
        ports: &mut KeptPorts,
    ) -> anyhow::Result<RunningServices> {
        let settings = StandInSettings {
            ports: ports.of_stand_ins(arguments.outbox_port)?,
            ..StandInSettings::in_directory(directory.outbox())
        };
        let stand_ins = StandIns::start(&settings).await;
        let stand_ins = stand_ins.context("cannot start the provider stand-ins")?;
        config.web_push.hosts.push(stand_ins.push_service_url().parse()?);
        let context = Context::connect(config).await?;
        let demo = demo::credentials(&context, &directory.demo_app()).await?;
        let providers = demo::providers(&stand_ins);
        demo::set_providers(&context, demo.app_id, &providers).await?;
        let console = demo::console_link(&context).await?;
        let metrics = server::start(&context).await?;
        context.serve("gateway", gateway::run);
        context.serve("dispatcher", dispatcher::run);
        context.serve("inbox", inbox::run);
        context.serve("email", email::run);
        context.serve("web push", web_push::run);
        context.serve("mobile push", mobile_push::run);
        context.serve("sms", sms::run);
        context.serve("webhooks", webhooks::run);
        context.serve("console", |context| console::run(context, kinds::known()));
        context.report_presence(BUILD);
        let api = SocketAddr::from((Ipv4Addr::LOCALHOST, context.config.gateway.listen.port()));
        ready(&context, api).await?;
        let api = format!("http://{api}");
        let prefix = context.config.header_prefixes.first().map_or("X-SERVICE", String::as_str).to_owned();
        let settings = ShopSettings {
            api: api.clone(),
            api_key: demo.api_key.clone(),
            api_secret: demo.api_secret.clone(),
            prefix: prefix.clone(),
        };
        let shop = shop::start(&context, settings, ports.choose("demo", arguments.demo_port)?).await?;
        ports.write()?;
        let url =
            |url: Option<&service_kit::ServerUrl>| url.map(|url| url.expose().to_owned()).unwrap_or_default();
        let dev = DevFile {
            api,
            shop: shop.url(),
            console,
            metrics: format!("http://127.0.0.1:{}/metrics", metrics.port()),
            outbox: stand_ins.outbox_url(),
            push_service: stand_ins.push_service_url(),
            app_id: demo.app_id.to_string(),
            api_key: demo.api_key,
            api_secret: demo.api_secret,
            header_prefix: prefix,
            database_url: url(context.config.database.url.as_ref()),
            nats_url: url(context.config.nats.url.as_ref()),
            providers: providers.iter().map(demo::StandIn::document).collect(),
        };
        Ok(RunningServices { context, dev, stand_ins, shop })
    }

    /// Waits until the services have finished their work in progress, then stops the stand-ins.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.context.tasks.stop();
        let finished = self.context.finish().await;
        self.shop.stop().await;
        self.stand_ins.stop().await;
        // A connection that is still in use after this time is closed when its server stops.
        timeout(CLOSED_WITHIN, self.context.store.close()).await.ok();
        finished.context("a service ended; the log above gives the cause")
    }
}

async fn ready(context: &Context, api: SocketAddr) -> anyhow::Result<()> {
    let mut ticks = interval(READY_INTERVAL);
    let connected = async {
        loop {
            ticks.tick().await;
            if TcpStream::connect(api).await.is_ok() {
                return;
            }
        }
    };
    tokio::select! {
        () = context.tasks.stopping() => {
            context.tasks.finish().await.context("a service ended; the log above gives the cause")?;
            bail!("the services were stopped")
        }
        connected = timeout(READY_WITHIN, connected) => {
            connected.with_context(|| format!("the API did not answer at {api} within {READY_WITHIN:?}"))
        }
    }
}
