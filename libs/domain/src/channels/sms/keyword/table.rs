//! Keywords by language and country. `docs/providers.md` names the sources.

#[derive(Debug)]
pub struct Words {
    pub language: &'static str,
    /// Calling codes of the countries in which the words are keywords; empty for every country.
    pub countries: &'static [&'static str],
    pub stop: &'static [&'static str],
    pub start: &'static [&'static str],
    pub help: &'static [&'static str],
}

/// Keywords in every country: those of 47 CFR 64.1200(a)(10), and those that carriers require.
pub const EVERYWHERE: Words = Words {
    language: "English",
    countries: &[],
    stop: &[
        "STOP",
        "STOPALL",
        "QUIT",
        "END",
        "REVOKE",
        "OPT OUT",
        "CANCEL",
        "UNSUBSCRIBE",
        "UNSUB",
        "REMOVE",
    ],
    start: &["START", "UNSTOP", "YES"],
    help: &["HELP", "INFO"],
};

/// Keywords that are ordinary words elsewhere. Each list applies only to numbers of its countries.
pub const LOCAL: &[Words] = &[
    Words {
        language: "French",
        countries: &["1", "32", "33", "41", "352", "377", "212", "213", "216", "221", "225", "237", "262"],
        stop: &["ARRET", "ARRETER", "DESABONNER", "DESINSCRIRE", "FIN", "ANNULER"],
        start: &["REPRENDRE", "REABONNER"],
        help: &["AIDE"],
    },
    Words {
        language: "German",
        countries: &["49", "43", "41", "423", "352"],
        stop: &["STOPP", "ABMELDEN", "ABBESTELLEN", "ENDE", "KÜNDIGEN"],
        start: &["ANMELDEN"],
        help: &["HILFE"],
    },
    Words {
        language: "Spanish",
        countries: &[
            "1", "34", "51", "52", "53", "54", "56", "57", "58", "502", "503", "504", "505", "506", "507",
            "591", "593", "595", "598",
        ],
        stop: &["BAJA", "ALTO", "PARAR", "CANCELAR", "DETENER", "FIN", "TERMINAR", "SALIR"],
        start: &["ALTA", "INICIAR", "REANUDAR"],
        help: &["AYUDA"],
    },
    Words {
        language: "Portuguese",
        countries: &["55", "351", "244", "258"],
        stop: &["PARAR", "SAIR", "PARE", "CANCELAR", "REMOVER"],
        start: &["INICIAR", "VOLTAR"],
        help: &["AJUDA"],
    },
    Words {
        language: "Italian",
        countries: &["39", "41", "378"],
        stop: &["ANNULLA", "FERMA", "FINE", "CANCELLA", "DISISCRIVI"],
        start: &["INIZIA", "RIPRENDI"],
        help: &["AIUTO"],
    },
    Words {
        language: "Dutch",
        countries: &["31", "32", "597"],
        stop: &["STOPPEN", "AFMELDEN", "UIT", "EINDE"],
        start: &["AANMELDEN"],
        help: &["HULP"],
    },
    Words {
        language: "Danish, Norwegian and Swedish",
        countries: &["45", "46", "47", "358"],
        stop: &["STOPP", "AFMELD", "AVMELD", "AVSLUTA", "AVREGISTRERA"],
        start: &["TILMELD"],
        help: &["HJÆLP", "HJELP", "HJÄLP"],
    },
    Words {
        language: "Finnish",
        countries: &["358"],
        stop: &["LOPETA", "PERUUTA"],
        start: &["ALOITA"],
        help: &["APUA"],
    },
    Words {
        language: "Polish",
        countries: &["48"],
        stop: &["REZYGNUJE", "KONIEC", "WYPISZ"],
        start: &["WZNOW"],
        help: &["POMOC"],
    },
    Words {
        language: "Turkish",
        countries: &["90", "357"],
        stop: &["IPTAL", "RET", "DUR"],
        start: &["BASLAT", "ONAY"],
        help: &["YARDIM"],
    },
    Words {
        language: "Russian and Ukrainian",
        countries: &["7", "380", "375", "996", "998"],
        stop: &["СТОП", "ОТПИСАТЬСЯ", "ОТПИСКА", "ОТМЕНА", "ВІДМОВА"],
        start: &["СТАРТ"],
        help: &["ПОМОЩЬ", "ДОПОМОГА"],
    },
    Words {
        language: "Greek",
        countries: &["30", "357"],
        stop: &["ΣΤΟΠ", "ΔΙΑΓΡΑΦΗ"],
        start: &["ΕΝΑΡΞΗ"],
        help: &["ΒΟΗΘΕΙΑ"],
    },
    Words {
        language: "Hebrew",
        countries: &["972"],
        stop: &["הסר", "הסרה", "הסירו"],
        start: &["התחל"],
        help: &["עזרה"],
    },
    Words {
        language: "Arabic",
        countries: &[
            "20", "212", "213", "216", "218", "961", "962", "963", "964", "965", "966", "968", "971", "973",
            "974",
        ],
        stop: &["توقف", "إيقاف", "إلغاء"],
        start: &["ابدأ"],
        help: &["مساعدة"],
    },
    Words {
        language: "Chinese",
        countries: &["86", "852", "853", "886"],
        stop: &["TD", "退订", "退訂", "停止", "取消"],
        start: &["恢复", "恢復"],
        help: &["帮助", "幫助"],
    },
    Words {
        language: "Japanese",
        countries: &["81"],
        stop: &["停止", "配信停止", "解除", "ストップ"],
        start: &["再開"],
        help: &["ヘルプ"],
    },
    Words {
        language: "Korean",
        countries: &["82"],
        stop: &["수신거부", "거부", "중지"],
        start: &["수신동의"],
        help: &["도움말"],
    },
    Words {
        language: "Indonesian and Malay",
        countries: &["62", "60"],
        stop: &["BERHENTI", "UNREG", "BATAL"],
        start: &["MULAI"],
        help: &["BANTUAN"],
    },
];

pub(super) fn of_number(number: &str) -> impl Iterator<Item = &'static Words> {
    let digits = number.strip_prefix('+').unwrap_or_default().to_owned();
    let local = LOCAL.iter().filter(move |words| {
        words.countries.iter().any(|code| !digits.is_empty() && digits.starts_with(code))
    });
    std::iter::once(&EVERYWHERE).chain(local)
}
