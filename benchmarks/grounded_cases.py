"""Question-answering runs of our own writing: a question, what was observed, right answers and wrong ones.

People, works and places are invented or plain geography. A wrong answer is what a model plausibly says: another entity
that was never observed, another one that was, a wrong date or count, a mere guess, giving up.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One run's question and observations, with answers that are right and answers that are wrong."""

    question: str
    seen: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]


CASES = (
    Case(
        "In which year was the director of The Salt Road born?",
        (
            "The Salt Road is a 1987 Norwegian drama film directed by Ingrid Halvorsen and produced by Per Lund.",
            "Ingrid Halvorsen (born 14 March 1949) is a Norwegian film director and screenwriter from Bergen.",
        ),
        (
            "1949",
            "Ingrid Halvorsen, who directed it, was born in 1949.",
            "14 March 1949",
            "March 14, 1949",
            "1949-03-14",
        ),
        (
            "1951",
            "1987",
            "She was born on 12 June 1949.",
            "Per Lund directed it; he was born in 1944.",
            "I could not find it.",
        ),
    ),
    Case(
        "Which magazine was started first, Harbour Weekly or The Orchard?",
        (
            "Harbour Weekly was an English literary magazine, published in Bristol from 1844 to 1846.",
            "The Orchard is a gardening magazine founded in 1989 by Ellen Marsh.",
        ),
        ("Harbour Weekly", "Harbour Weekly, in 1844.", "Harbour Weekly was started first (1844 vs. 1989)."),
        ("The Orchard", "Harbour Gazette", "The Orchard, in 1839.", "Bristol Weekly, founded by Thomas Carrow"),
    ),
    Case(
        "Were Anders Vik and Louisa Brandt of the same nationality?",
        (
            "Anders Vik (1911-1978) was an American engineer and bridge builder of Norwegian descent.",
            "Louisa Brandt was an American painter born in Cincinnati, Ohio.",
        ),
        ("Yes", "yes", "Yes, both were American.", "Yes. Both came from the United States."),
        ("No", "No, Brandt was Austrian.", "No. Vik was Danish and Brandt was American."),
    ),
    Case(
        "What government position was held by the woman who played Nora in Kettle Street?",
        (
            "Kettle Street is a 1952 comedy film with June Abbott as Nora and Roy Pell as her neighbour.",
            "June Abbott Hale was an actress and diplomat. She served as Chief of Protocol of the United States.",
        ),
        (
            "Chief of Protocol",
            "Chief of Protocol of the US",
            "She served as the Chief of Protocol.",
            "chief of protocol",
        ),
        ("Secretary of State", "Ambassador to Ghana", "She was Deputy Minister of Culture.", "senator"),
    ),
    Case(
        "How many people live in the town where the Larkin bell foundry stands?",
        (
            "The Larkin bell foundry stands in Oakmere, in the county of Dorne.",
            "Oakmere is a market town. Its population was 12,480 at the 2011 census, up from 11,900 in 2001.",
        ),
        ("12,480", "12480", "About 12,500 people", "Oakmere has a population of 12,480 (2011 census).", "12 480"),
        ("21,480", "11,900", "About 30,000", "Oakmere has 14,200 people.", "a few thousand people live there"),
    ),
    Case(
        "Who composed the anthem that was played at the opening of the Teller Bridge?",
        (
            "The Teller Bridge was opened on 3 May 1931. The band played 'Rise, River', an anthem by Josef Kolar.",
            "Josef Kolar (1880-1952) was a Czech composer and organist in Brno.",
        ),
        ("Josef Kolar", "The anthem was by Josef Kolar.", "J. Kolar", "Kolar", "The Czech composer Josef Kolár"),
        ("Antonin Weber", "Josef Kremer", "Leos Janda, a Czech composer", "It was composed by Karel Novak in 1931."),
    ),
    Case(
        "What is the length of the river that flows through Sandby?",
        (
            "Sandby is a village on the river Elm, 12 km from the coast.",
            "The Elm is a river in the north. It is 142 km (88 mi) long and flows into the Grey Lake.",
        ),
        ("142 km", "142 kilometres", "88 miles", "The Elm is 142 km long.", "About 140 km"),
        ("241 km", "96 miles", "The Elm is 152 km long.", "12 km", "The Severn, 354 km"),
    ),
    Case(
        "The band that recorded Paper Lanterns comes from which city?",
        (
            "Paper Lanterns is the third album by the Canadian indie rock band Low Orchard, released on 9 "
            "October 2007.",
            "Low Orchard are a rock band from Halifax, Nova Scotia, formed in 2001 by Mia Tran and Jack Doyle.",
        ),
        ("Halifax", "Halifax, Nova Scotia", "Low Orchard come from Halifax in Canada.", "Halifax, Canada"),
        ("Toronto", "Montreal, Quebec", "Vancouver", "They come from Winnipeg, Manitoba.", "Unknown"),
    ),
    Case(
        "When did the architect of the Corn Hall die?",
        (
            "The Corn Hall in Wexley was built in 1874 to a design by Edmund Thorpe.",
            "Edmund Thorpe (2 January 1830 – 17 November 1901) was an English architect.",
        ),
        (
            "17 November 1901",
            "1901",
            "November 17, 1901",
            "Edmund Thorpe died on 17 November 1901.",
            "in November 1901",
        ),
        ("1911", "17 November 1910", "1874", "He died on 2 February 1901.", "Edmund Thorpe"),
    ),
    Case(
        "What profession do Maria Solano and Kenji Ota have in common?",
        (
            "Maria Solano is a Chilean novelist, poet and translator.",
            "Kenji Ota (太田 健二) is a Japanese author, best known for his novel The Quiet Hour; he has published "
            "poetry too.",
        ),
        ("novelist", "poet", "Both are poets.", "They are both novelists and poets.", "writers of novels"),
        ("film director", "journalist", "Both are sculptors.", "politician", "I don't know."),
    ),
    Case(
        "Which university did the founder of Bluefin Robotics Lab attend?",
        (
            "Bluefin Robotics Lab was founded in 1998 by Priya Raman and is based in Pune.",
            "Priya Raman studied at the Massachusetts Institute of Technology and at Pune University.",
        ),
        ("MIT", "Massachusetts Institute of Technology", "Priya Raman attended MIT.", "Pune University and MIT"),
        ("Stanford University", "IIT Bombay", "Harvard", "She attended Carnegie Mellon.", "Oxford University"),
    ),
    Case(
        "How many more seats does the Grand than the Regal have?",
        ("The Grand theatre has 1,250 seats and two balconies.", "The Regal seats 930 and was rebuilt in 1956."),
        ("320", "The Grand has 320 more seats.", "1,250 - 930 = 320", "It has 320 seats more than the Regal."),
        ("420", "The Grand has 210 more.", "1,250", "About 500 more", "The Odeon has more."),
    ),
    Case(
        "Which of the two actors in Cold Harvest was born earlier?",
        (
            "Cold Harvest (1996) stars Dolores Quinn and Peter Amsel.",
            "Peter Amsel (born 8 July 1961) is an Austrian actor.",
            "Dolores Quinn (born 30 December 1958) is an Irish stage and film actress.",
        ),
        (
            "Dolores Quinn",
            "Dolores Quinn, born in 1958",
            "Quinn was born earlier, on December 30, 1958.",
            "the Irish actress Dolores Quinn",
        ),
        ("Peter Amsel", "Dolores Costa", "Helen Quill, born in 1955", "Quinn was born earlier, in 1948."),
    ),
    Case(
        "What is the nickname of the stadium where the 1994 Mariner Cup final was played?",
        (
            "The 1994 Mariner Cup final was played at Fulton Park in front of 41,225 spectators.",
            "Fulton Park, nicknamed 'The Kettle', is a football stadium with a capacity of 43,000.",
        ),
        ("The Kettle", '"The Kettle"', "Its nickname is the Kettle.", "Fulton Park is nicknamed The Kettle."),
        ("The Cauldron", '"The Theatre of Dreams"', "The Fortress", "Its nickname is the Bowl.", "Wembley"),
    ),
    Case(
        "In what year did the company that makes the Lark bicycle move its headquarters?",
        (
            "The Lark is a folding bicycle made by Tern & Daughters since 1977.",
            "Tern & Daughters was founded in Leeds in 1922. In 1983 it moved its headquarters to Hull.",
        ),
        ("1983", "In 1983 it moved to Hull.", "1983, to Hull", "The company moved in the year 1983."),
        ("1985", "1922", "2003", "It moved to York in 1983.", "In the 1990s"),
    ),
    Case(
        "Who was the mother of the king who founded Port Amalie?",
        (
            "Port Amalie was founded in 1664 by King Frederik II of Norland and named after his wife.",
            "Frederik II (1630-1691) was the son of Christian IV and Queen Dorothea of Saxe.",
        ),
        ("Dorothea of Saxe", "Queen Dorothea", "His mother was Queen Dorothea of Saxe.", "Dorothea"),
        ("Amalie of Hesse", "Sophie Magdalene", "Queen Charlotte of Brandenburg", "His mother was Anna Katharina."),
    ),
    Case(
        "What language is spoken on the island where Tomas Rey grew up?",
        (
            "Tomas Rey was born in Lisbon and grew up on the island of Saboa.",
            "Saboa is an island in the Atlantic. The inhabitants speak Portuguese and a creole of their own.",
        ),
        ("Portuguese", "Portuguese and a creole", "They speak Portuguese there.", "a creole and Portuguese"),
        ("Spanish", "English", "French Creole", "They speak Galician.", "Catalan"),
    ),
    Case(
        "The 2009 novel The Glass Ferry won which prize?",
        (
            "The Glass Ferry is a 2009 novel by Owen Pryce.",
            "Owen Pryce won the Merton Prize for Fiction for The Glass Ferry, and was shortlisted for the Linden "
            "Award.",
        ),
        (
            "the Merton Prize",
            "Merton Prize for Fiction",
            "It won the Merton Prize for Fiction in 2009.",
            "The Merton Fiction Prize",
        ),
        (
            "The Booker Prize",
            "Costa Book Award",
            "It won the Pulitzer Prize.",
            "the Linden Award",
            "Orange Prize for Fiction",
        ),
    ),
    Case(
        "What is the population of the capital of Eastmark, in millions?",
        (
            "Eastmark is a country whose capital is Varn.",
            "Varn is a city with 2,300,000 inhabitants on the river Oder.",
        ),
        ("2.3 million", "2.3", "Varn has 2.3 million inhabitants.", "two million three hundred thousand"),
        ("3.2 million", "1.7 million", "Varn has 4 million inhabitants.", "230,000", "Budapest, 1.7 million"),
    ),
    Case(
        "Which sport did both Hal Jansen and Amy Cole play professionally?",
        (
            "Hal Jansen (born 1970) is a retired Dutch tennis player who won four titles.",
            "Amy Cole is an Australian former professional tennis player and coach.",
        ),
        ("tennis", "Tennis", "Both played tennis.", "They were tennis players."),
        ("golf", "Badminton", "Both played squash.", "cricket", "Field hockey"),
    ),
    Case(
        "Who wrote the screenplay of the film that won the 1973 Silver Lantern?",
        (
            "The 1973 Silver Lantern went to the film Ash Wednesday Blues, directed by Carl Dorn.",
            "Ash Wednesday Blues was written by Ruth Levin, with music by Sol Baker.",
        ),
        ("Ruth Levin", "Ruth Levin wrote it.", "The screenplay is by Ruth Levin.", "Levin"),
        ("Carl Dorn", "Paul Schroeder", "Ruth Goldmann", "It was written by Nora Ellis.", "Sol Levine"),
    ),
    Case(
        "How old was Clara Munt when she won her first medal?",
        (
            "Clara Munt (born 5 June 1972) is a British rower.",
            "Munt won her first medal, a bronze, at the 1994 championships in August 1994 in Lucerne.",
        ),
        ("22", "She was 22 years old.", "22 years", "twenty-two"),
        ("24", "She was 19.", "27", "She was 31 years old.", "very young"),
    ),
    Case(
        "What did Admiral Voss say when the fleet turned back?",
        (
            'According to the log, Admiral Voss said: "We shall not leave a single lamp burning," and the fleet '
            "turned back.",
            "Admiral Heinrich Voss commanded the western fleet from 1902 on.",
        ),
        (
            '"We shall not leave a single lamp burning"',
            'He said, "we shall not leave a single lamp burning."',
            'Voss said: "We shall not leave ... lamp burning".',
            "That they would not leave a single lamp burning.",
        ),
        (
            '"Every man for himself"',
            'He said: "We shall return before the winter."',
            '"Burn the lamps, all of them"',
            '"We will fight on"',
        ),
    ),
    Case(
        "Which country hosted the games in which the Reed brothers competed?",
        (
            "The brothers Ian and Sam Reed competed in bobsleigh at the 1984 Winter Games.",
            "The 1984 Winter Games were held in Sarajevo, Yugoslavia, from 8 to 19 February 1984.",
        ),
        ("Yugoslavia", "The games were held in Yugoslavia.", "Sarajevo, Yugoslavia", "Yugoslavia (in February 1984)"),
        ("Austria", "Canada", "They competed in Calgary, Canada.", "France", "The Soviet Union hosted them."),
    ),
    Case(
        "When was the treaty that ended the Herring War signed?",
        (
            "The Herring War lasted from 1761 to 1763.",
            "It was ended by the Treaty of Lund, signed on 2nd of October, 1763.",
        ),
        ("2 October 1763", "October 2, 1763", "1763", "It was signed on 2nd October 1763.", "1763-10-02", "02/10/1763"),
        ("12 October 1763", "1764", "10 February 1763", "It was signed on 3 September 1783.", "October 1761"),
    ),
    Case(
        "What type of institution do Brackley Hall and Wren House have in common?",
        (
            "Brackley Hall is a museum of glass and ceramics in Derry.",
            "Wren House, built in 1702, has been a museum since 1966 and shows clocks.",
        ),
        ("museum", "museums", "Both are museums.", "Museum"),
        ("hospital", "Both are schools.", "libraries", "Hotel", "prison"),
    ),
    Case(
        "谁设计了青石大桥？",
        ("青石大桥位于临江市，1968年建成，由工程师周文远设计。", "周文远（1921年－1999年），中国桥梁工程师。"),
        ("周文远", "工程师周文远", "周文远设计了青石大桥。", "由周文远设计，1968年建成。"),
        ("李国强", "青石大桥由茅以成设计。", "王建国，1972年", "不知道"),
    ),
    Case(
        "青石大桥是哪一年建成的？",
        ("青石大桥位于临江市，一九六五年开工，1968年9月1日建成通车。",),
        ("1968年", "1968", "1968年9月1日", "青石大桥于1968年建成。"),
        ("1972年", "1986", "1958年9月1日", "青石大桥于1978年建成。"),
    ),
    Case(
        "Which company owns the airline that flies to Port Sorrel?",
        (
            "Port Sorrel Airport is served by AirTasman from Hobart and Melbourne.",
            "AirTasman is a regional airline owned by Coral Holdings Ltd., which also runs two ferries.",
        ),
        (
            "Coral Holdings",
            "Coral Holdings Ltd",
            "AirTasman is owned by Coral Holdings.",
            "It is owned by Coral Holdings, Ltd.",
        ),
        ("Qantas", "Virgin Group", "Pacific Holdings", "It is owned by the Singapore government.", "Rex Airlines"),
    ),
    Case(
        "Which element did the sister of Max Brenner discover?",
        (
            "Max Brenner was a Swiss violinist; his elder sister was the chemist Hedwig Brenner.",
            "Hedwig Brenner co-discovered the element rhenium in 1925, together with two colleagues.",
        ),
        ("rhenium", "Rhenium", "She discovered rhenium.", "Hedwig Brenner co-discovered rhenium in 1925."),
        ("polonium", "Hafnium", "She discovered technetium.", "radium", "Hedwig Brenner discovered francium in 1939."),
    ),
    Case(
        "What was the budget of the highest-grossing film by Lena Duarte?",
        (
            "Lena Duarte's highest-grossing film is Tidewater (2014), which earned $312 million worldwide.",
            "Tidewater was made on a budget of $45 million, by the studio Ninth Wave.",
        ),
        ("$45 million", "45 million dollars", "$45,000,000", "Tidewater had a budget of $45m.", "US$45 million"),
        (
            "$65 million",
            "54 million dollars",
            "$312 million",
            "Tidewater had a budget of $120 million.",
            "$4.5 billion",
        ),
    ),
    Case(
        "Who succeeded the mayor under whom the tram was built?",
        (
            "The tram of Alberg was built from 1991 to 1995 under mayor Sabine Roth.",
            "Sabine Roth was mayor from 1986 to 1998. She was followed in office by Dr. Emil Fuchs.",
        ),
        ("Emil Fuchs", "Dr. Emil Fuchs", "She was succeeded by Emil Fuchs in 1998.", "Dr Fuchs"),
        ("Hans Weber", "Emil Vogel", "Monika Stolz", "She was succeeded by Karl Huber in 1999.", "Sabine Roth"),
    ),
    Case(
        "What percentage of the votes did the winner of the 2010 Carrow election get?",
        (
            "In the 2010 Carrow election 8,000 votes were cast. Lucy Park won with 4,400 votes, before Dan Hill "
            "with 3,600.",
        ),
        ("55%", "55 percent", "Lucy Park got 55 % of the votes.", "4,400 of 8,000, so 55%"),
        ("62%", "45.2 percent", "She got 51%.", "Lucy Park got 71 % of the votes.", "a large majority"),
    ),
    Case(
        "What animal is on the flag of the province where Nils Aho was born?",
        (
            "Nils Aho was born in Kuhmo, in the province of Kainu.",
            "The flag of Kainu shows a black wolf on a white field.",
        ),
        ("a wolf", "wolf", "A black wolf", "The flag shows a black wolf on white."),
        ("a bear", "eagle", "A brown bear", "The flag shows a reindeer.", "lynx"),
    ),
    Case(
        "Which newspaper did the poet Idris Kane edit before the war?",
        (
            "Idris Kane (1889-1943) was a Welsh poet. From 1919 to 1938 he edited The Valley Star.",
            "After 1940 Kane wrote for the Evening Courier.",
        ),
        (
            "The Valley Star",
            "Valley Star",
            "He edited the Valley Star from 1919 to 1938.",
            "Kane's paper was The Valley Star.",
        ),
        (
            "The Western Mail",
            "The Daily Star",
            "Evening Courier",
            "He edited The Manchester Guardian.",
            "The Cardiff Times",
        ),
    ),
    Case(
        "How tall is the tower that was designed by Yusuf Demir?",
        (
            "The Marmara Tower was designed by Yusuf Demir.",
            "The Marmara Tower is 203.5 m (668 ft) high and has 51 floors.",
        ),
        ("203.5 m", "203.5 metres", "668 feet", "The Marmara Tower is 203.5 m tall.", "about 204 m"),
        ("230 m", "The Marmara Tower is 185 m tall.", "754 feet", "305 m", "The Galata Tower, 66.9 m"),
    ),
    Case(
        "Who plays the sister in the series whose pilot was shot in Galway?",
        (
            "The pilot of the series Low Tide was shot in Galway in 2012.",
            "Low Tide stars Fiona Keane as Maeve and Aoife Byrne as her sister Orla; Cillian Shaw plays the priest.",
        ),
        ("Aoife Byrne", "Aoife Byrne plays her sister.", "Orla, the sister, is played by Aoife Byrne.", "Byrne"),
        ("Fiona Keane", "Saoirse Doyle", "Aoife Kelly", "Orla is played by Ruth Negga.", "Niamh Walsh"),
    ),
    Case(
        "Is the peak on which the Ahorn hut stands higher than 2,500 metres?",
        ("The Ahorn hut stands below the summit of the Grubkogel.", "The Grubkogel is a mountain of 2,780 m in Tyrol."),
        ("Yes", "Yes, the Grubkogel is 2,780 m high.", "Yes: 2,780 metres.", "yes, by 280 metres"),
        ("No", "No, it is 2,340 m high.", "No, the Ahornspitze is 2,973 m high."),
    ),
    Case(
        "What year did the first season of the league that Marlow FC plays in begin?",
        (
            "Marlow FC plays in the Thames Valley League.",
            "The Thames Valley League is a football competition. Its first season was played in 1967-68.",
        ),
        ("1967", "The first season began in 1967.", "1967–68", "in 1967, with the 1967-68 season"),
        ("1976", "1971", "1888", "Its first season was 1957-58.", "Marlow FC"),
    ),
    Case(
        "Which ocean does the river fed by the Osa glacier flow into?",
        (
            "The Osa glacier feeds the river Tamga in northern Siberia.",
            "The Tamga is 611 km long and flows into the Kara Sea, a part of the Arctic Ocean.",
        ),
        ("the Arctic Ocean", "Arctic", "It flows into the Arctic Ocean by the Kara Sea.", "Arctic Ocean"),
        ("Pacific Ocean", "The Atlantic", "It flows into the Pacific by the Sea of Okhotsk.", "the Indian Ocean"),
    ),
    Case(
        "Which instrument is played by the brother of Ines Vidal?",
        (
            "Ines Vidal is a Spanish flamenco dancer. Her brother Rafael accompanies her on tour.",
            "Rafael Vidal (born 1981 in Cordoba) is a guitarist and composer.",
        ),
        ("guitar", "the guitar", "Rafael Vidal plays the guitar.", "Her brother Rafael is a guitarist."),
        ("piano", "cello", "He plays the violin.", "Rafael Vidal plays the trumpet.", "drums"),
    ),
    Case(
        "What is the real name of the rapper who recorded Night Ledger?",
        (
            "Night Ledger is a 2016 mixtape by the American rapper Doc Meridian.",
            "Darnell Oyelaran Hicks, known professionally as Doc Meridian, is a rapper from Oakland, California.",
        ),
        ("Darnell Oyelaran Hicks", "Darnell Hicks", "His real name is Darnell Hicks.", "Darnell O. Hicks"),
        ("Marcus Johnson", "Darnell Jenkins", "His real name is Terrence Hill.", "Curtis Hicks Jr.", "Doc Martin"),
    ),
)


def halves() -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """The cases that the check was tuned on, and those held out from it."""
    return CASES[::2], CASES[1::2]
